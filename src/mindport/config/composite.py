"""The text model inside a config of several models: vision and language, speech and language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindport.architectures.common import COMMON
from mindport.architectures.families import is_declared, text_parts
from mindport.architectures.vocabulary import RECORD
from mindport.errors import MindportError, brief
from mindport.i18n import tr

_DEEPEST = 3
"""Levels below the top at which a text model is looked for; Qwen's omni models have two."""

_DTYPE = ("dtype", "torch_dtype")
"""transformers 5 loads all parts in the dtype that the top level names, whatever theirs say."""

_COMPLETED = ("tie_word_embeddings", "vocab_size", "quantization_config")
"""What the text model's config may leave to the levels above it. All else there is about the other parts, or about
generation: LLaVA's `pad_token_id`, say, is not the padding row of its text model's embedding."""

_RECORDS = {key for rule in COMMON if rule.layer == RECORD for key in rule.keys}


@dataclass(frozen=True)
class TextPart:
    """What of a config is the text model.

    Args:
        path: keys that lead to it, such as ("thinker_config", "text_config"); () where the config is a text model's.
        config: its keys, completed from the levels above.
        left_out: keys of the levels above that say nothing about it, dotted where they are nested themselves; those of
            other models come first.
    """

    path: tuple[str, ...]
    config: dict[str, Any]
    left_out: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """The path as people write it."""
        return ".".join(self.path) or None


def text_part(hf: dict[str, Any]) -> TextPart:
    """The text model of a config.

    A config whose own model_type is declared is one, and so is one that holds no text model with a model_type.

    Raises:
        MindportError: two levels say different things about the text model.
    """
    path = _path(hf)
    if not path:
        return TextPart((), hf)
    levels = _levels(hf, path)
    config, above = dict(levels[-1]), levels[:-1]
    outer_dtype = next(({k: level[k]} for level in above for k in _DTYPE if level.get(k) is not None), None)
    if outer_dtype:
        config = {k: v for k, v in config.items() if k not in _DTYPE} | outer_dtype
    for key in _COMPLETED:
        said = [level[key] for level in reversed(levels) if level.get(key) is not None]
        if len({repr(value) for value in said}) > 1:
            raise MindportError(
                tr(
                    "{key} is {inner} in {part} and {outer} above it.",
                    key=key,
                    inner=brief(said[0]),
                    part=".".join(path),
                    outer=brief(said[1]),
                ),
                tr("Correct it in config.json."),
            )
        if said:
            config[key] = said[0]
    used = {*_DTYPE, *_COMPLETED, *_RECORDS}
    left_out = {
        ".".join((*path[:depth], key)): value
        for depth, level in enumerate(above)
        for key, value in level.items()
        if key != path[depth] and key not in used
    }
    models_first = sorted(left_out, key=lambda key: not isinstance(left_out[key], dict))
    return TextPart(path, config, tuple(models_first))


def with_text(hf: dict[str, Any], part: TextPart, config: Mapping[str, Any]) -> dict[str, Any]:
    """The whole config again, with the text model's keys as `config` has them.

    What differs from `part.config` is written wherever the whole config says it, else in the text model's part.
    """
    levels = [dict(level) for level in _levels(hf, part.path)]
    for key in dict.fromkeys((*part.config, *config)):
        if key in config and key in part.config and config[key] == part.config[key]:
            continue
        shared = key in (*_DTYPE, *_COMPLETED)
        holders = [level for level in (levels if shared else levels[-1:]) if key in level]
        for level in holders or levels[-1:]:
            if key in config:
                level[key] = config[key]
            else:
                level.pop(key, None)
    for depth, key in reversed(list(enumerate(part.path))):
        levels[depth][key] = levels[depth + 1]
    return levels[0]


def _path(hf: Mapping[str, Any]) -> tuple[str, ...]:
    path: list[str] = []
    found: tuple[str, ...] = ()
    while len(path) < _DEEPEST and not is_declared(hf):
        key = next((key for key in text_parts() if isinstance(hf.get(key), dict)), None)
        if key is None:
            break
        path.append(key)
        hf = hf[key]
        found = tuple(path) if isinstance(hf.get("model_type"), str) else found
    return found


def _levels(hf: dict[str, Any], path: Sequence[str]) -> list[dict[str, Any]]:
    levels = [hf]
    for key in path:
        levels.append(levels[-1][key])
    return levels
