"""`ms_config.json`: everything needed to build the native model, and to go back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from mindport.architectures import source_of
from mindport.architectures.naming import Spelling, spellings, tied_copies
from mindport.config.hf import ModelConfig
from mindport.config.json_file import read_json_object, write_json
from mindport.config.sanity import out_of_range
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig, VocabChange
from mindport.targets import NATIVE, Target
from mindport.version import __version__

if TYPE_CHECKING:
    from mindport.targets.mindformers import Destination

FILE_NAME = "ms_config.json"
FORMAT = 1


@dataclass(frozen=True)
class NativeConfig:
    """A model as Mindport writes it: canonical config, and what exact export needs to know of the source.

    Args:
        model: canonical config and source config.
        spelling: how the source checkpoint spelled tensor names; None where only a config was converted.
        copies: tied copies the source checkpoint held.
        vocab: what the conversion made of the vocabulary, if anything.
        destination: the graph of MindFormers whose weights they are; None: the native network's.
    """

    model: ModelConfig
    spelling: Spelling | None = None
    copies: tuple[str, ...] = ()
    vocab: VocabChange | None = None
    destination: Destination | None = None

    @property
    def target(self) -> Target:
        """What the weights are made of."""
        return self.destination.target if self.destination else NATIVE


def write_native_config(folder: Path, config: NativeConfig) -> Path:
    """Write `ms_config.json` into a folder."""
    path = folder / FILE_NAME
    write_json(path, to_json(config))
    return path


def to_json(config: NativeConfig) -> dict[str, Any]:
    """The content of `ms_config.json`."""
    source: dict[str, Any] = {"config": config.model.hf, "tied_copies": list(config.copies)}
    if config.vocab:
        source["vocab"] = config.vocab.to_json()
    if config.spelling:
        source["names"] = asdict(config.spelling)
    target = {"target": config.destination.to_json()} if config.destination else {}
    return {
        "mindport": {"format": FORMAT, "version": __version__},
        "model_type": config.model.model_type,
        "hf_class": config.model.hf_class,
        "transformer": asdict(config.model.transformer),
        "source": source,
        **target,
    }


def read_native_config(path: Path) -> NativeConfig:
    """Read `ms_config.json`, or that of a folder, back to an identical object.

    Raises:
        MindportError: unreadable, of another format, with fields missing or unknown, or with a value of another type.
    """
    path = path / FILE_NAME if path.is_dir() else path
    if not path.is_file():
        raise MindportError(tr("{path} does not exist.", path=path), tr("Give a folder that `mindport convert` wrote."))
    content = read_json_object(path)
    try:
        if content["mindport"]["format"] != FORMAT:
            raise MindportError(
                tr(
                    "{path} has format {found}, not {wanted}.",
                    path=path,
                    found=content["mindport"]["format"],
                    wanted=FORMAT,
                ),
                tr("Convert the model again with this version of Mindport."),
            )
        source = content["source"]
        transformer = _transformer(path, content["transformer"])
        declared_by = source_of(content["model_type"])
        if declared_by is None:
            raise MindportError(
                tr("{path} was converted with a declaration of its own, which is not here.", path=path),
                tr(
                    "Give the folder of declarations again (--declarations DIR), or install what declares {name}.",
                    name=brief(content["model_type"]),
                ),
            )
        model = ModelConfig(content["model_type"], content["hf_class"], transformer, dict(source["config"]))
        declaration, _ = model.declaration, model.declared_class
        spelling, names = None, source.get("names")
        if names:
            spelling = Spelling(names["base"], tuple((old, new) for old, new in names["replacements"]), names["table"])
            if spelling not in spellings(declaration, model.hf):
                raise ValueError(names)
        copies = tuple(source["tied_copies"])
        usual = next(spellings(declaration, model.hf))
        if set(copies) - set(tied_copies(declaration, transformer, spelling or usual)):
            raise ValueError(copies)
        vocab = VocabChange.from_json(source["vocab"]) if "vocab" in source else None
        if vocab and vocab.after != transformer.vocab_size:
            raise ValueError(vocab)
        return NativeConfig(model, spelling, copies, vocab, _destination(content.get("target")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MindportError(
            tr("{path} is not an ms_config.json written by Mindport: {error!r}.", path=path, error=error),
            tr("Convert the model again."),
        ) from None


def _destination(record: Any) -> Destination | None:
    if record is None:
        return None
    from mindport.targets.mindformers import Destination  # its tables, which the native network can do without

    return Destination.from_json(record)


def native_only(path: Path, config: NativeConfig) -> NativeConfig:
    """The config of a folder whose weights are the native network's.

    Raises:
        MindportError: they are MindFormers'.
    """
    if config.destination:
        raise MindportError(
            tr("{path} holds weights of MindFormers, and not of the native network.", path=path),
            tr("Compare them in MindFormers itself: mindport verify MODEL DIR --engine mindformers."),
        )
    return config


def _transformer(path: Path, content: dict[str, Any]) -> TransformerConfig:
    known = {f.name for f in fields(TransformerConfig)}
    if set(content) != known:
        raise MindportError(
            tr(
                "{path}: the transformer section lacks [{missing}] and has unknown fields [{unknown}].",
                path=path,
                missing=_some(known - set(content)),
                unknown=_some(set(content) - known),
            ),
            tr("Convert the model again with this version of Mindport."),
        )
    kinds = get_type_hints(TransformerConfig)
    wrong = [name for name, value in content.items() if not _fits(value, kinds[name])]
    if wrong:
        raise MindportError(
            tr(
                "{path}: the transformer section has values of a wrong type: {fields}.",
                path=path,
                fields=_some(wrong),
            ),
            tr("Convert the model again with this version of Mindport."),
        )
    transformer = TransformerConfig(**content)
    wrong = out_of_range(transformer)
    if wrong:
        raise MindportError(
            tr("{path}: the transformer section has values out of range: {fields}.", path=path, fields=_some(wrong)),
            tr("Convert the model again."),
        )
    return transformer


def _some(names: Iterable[str], most: int = 6) -> str:
    """A list of field names that stays one sentence."""
    known = sorted(names)
    return ", ".join(name[:60] for name in known[:most]) + (" ..." if len(known) > most else "")


def _fits(value: object, kind: Any) -> bool:
    """Whether a JSON value is of a field's type, such as `int | list[int] | None`."""
    options = tuple(get_origin(option) or option for option in get_args(kind) or (kind,))
    if isinstance(value, bool):
        return bool in options
    return isinstance(value, options) or (float in options and isinstance(value, int))
