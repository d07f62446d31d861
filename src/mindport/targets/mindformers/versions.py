"""The releases of MindFormers: what each needs beside it, its generations, and the families each has a graph for.

Three generations live side by side and have nothing in common but the name: `legacy` (the Llama classes, in YAML
`use_legacy: True`), `mcore` (`use_legacy: False`, Megatron-core's modules as static graphs; a graph for training and
another for inference), and `pynative` (`run_mindformer.py --mode 1`, with a YAML of its own).

Sources: the metadata and the code of the published packages (1.1, 1.2, 1.3.2, 1.6 to 2.1); for 1.0 and 1.5, the
release notes and example files of the public repository.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.plugin.families import FAMILIES as PLUGIN_FAMILIES
from mindport.plugin.families import VERSION as PLUGIN_VERSION

LEGACY, MCORE, PYNATIVE = "legacy", "mcore", "pynative"

EXECUTED, SCHEMA, DOCUMENTED = "executed", "schema", "documented"
"""How Mindport knows what it says of a version; see `Version.evidence_text`."""


@dataclass(frozen=True)
class Version:
    """One release.

    Args:
        name: as given after `mindformers@`.
        mindspore: the MindSpore it is made for.
        cann: the CANN it is made for.
        python: the newest Python it is known to work with.
        transformers: its pin, as pip spells it; None = none.
        evidence: EXECUTED, SCHEMA or DOCUMENTED.
    """

    name: str
    mindspore: str
    cann: str
    python: str
    transformers: str | None
    evidence: str

    @property
    def order(self) -> tuple[int, ...]:
        """For comparisons: 1.10 comes after 1.9."""
        return _order(self.name)

    @property
    def target(self) -> str:
        """As after `--to`."""
        return f"mindformers@{self.name}"

    @property
    def loads_safetensors(self) -> bool:
        """Whether its training begins with safetensors too; before, with `.ckpt` alone."""
        return self.order >= (1, 5)

    @property
    def evidence_text(self) -> str:
        """In the user's language, how far what is written for this version was checked."""
        return {
            EXECUTED: tr("executed in MindFormers"),
            SCHEMA: tr("checked against its schema"),
            DOCUMENTED: tr("from documented facts"),
        }[self.evidence]

    @property
    def generations(self) -> tuple[str, ...]:
        """The generations in which it can train anything, the usual one first."""
        present = {family.generation for family in FAMILIES if family.trains(self)}
        return tuple(generation for generation in (MCORE, LEGACY, PYNATIVE) if generation in present)

    def families(self, generation: str, *, training: bool = True) -> tuple[Family, ...]:
        """The families of a generation that it can train (or run: `training=False`)."""
        return tuple(
            family
            for family in FAMILIES
            if family.generation == generation and (family.trains(self) if training else family.infers(self))
        )


@dataclass(frozen=True)
class Family:
    """A model of MindFormers, in one generation.

    Args:
        name: its `model_type` (mcore, pynative), or that of the classes (legacy).
        generation: LEGACY, MCORE or PYNATIVE.
        config_class, model_class: as MindFormers registers them.
        trained_since, inferred_since: the first version with a graph for it; None = there is none.
        plugin: its training graph is not MindFormers' own: it comes with Mindport's plug-in, for one version alone.
    """

    name: str
    generation: str
    config_class: str
    model_class: str
    trained_since: str | None
    inferred_since: str | None
    plugin: bool = False

    def trains(self, version: Version) -> bool:
        if self.plugin:
            return version.name == self.trained_since
        return self.trained_since is not None and version.order >= _order(self.trained_since)

    def infers(self, version: Version) -> bool:
        return self.inferred_since is not None and version.order >= _order(self.inferred_since)


def _order(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))


_INFERRED_SINCE = {"qwen2": "1.6"}
"""Families of the plug-in that MindFormers has an inference graph for."""

FAMILIES: tuple[Family, ...] = (
    Family("qwen3", MCORE, "Qwen3Config", "Qwen3ForCausalLM", "1.7", "1.6"),
    Family("qwen3_moe", MCORE, "Qwen3MoeConfig", "Qwen3MoeForCausalLM", "1.7", "1.6"),
    Family("deepseek_v3", MCORE, "DeepseekV3Config", "DeepseekV3ForCausalLM", "1.6", "1.6"),
    *(
        Family(
            family.model_type,
            MCORE,
            family.config_class,
            family.model_class,
            PLUGIN_VERSION,
            _INFERRED_SINCE.get(family.model_type),
            plugin=True,
        )
        for family in PLUGIN_FAMILIES
    ),
    Family("telechat3", MCORE, "TeleChat3Config", "TeleChat3ForCausalLM", "1.9", "1.9"),
    Family("telechat3_moe", MCORE, "TeleChat3MoeConfig", "TeleChat3MoeForCausalLM", "1.9", "1.9"),
    Family("glm4", MCORE, "Glm4Config", "Glm4ForCausalLM", None, "1.7"),
    Family("glm4_moe", MCORE, "Glm4MoeConfig", "Glm4MoeForCausalLM", None, "1.7"),
    Family("telechat2", MCORE, "Telechat2Config", "TeleChat2ForCausalLM", None, "1.7"),
    Family("llama", LEGACY, "LlamaConfig", "LlamaForCausalLM", "1.0", "1.0"),
    Family("glm2", LEGACY, "ChatGLM2Config", "ChatGLM2ForConditionalGeneration", "1.0", "1.0"),
    Family("qwen3", PYNATIVE, "Qwen3Config", "Qwen3ForCausalLM", "1.9", None),
    Family("deepseek_v3", PYNATIVE, "DeepseekV3Config", "DeepseekV3ForCausalLM", "1.9", None),
    Family("deepseek_v4", PYNATIVE, "DeepseekV4Config", "DeepseekV4ForCausalLM", "2.0", None),
)
"""What is built into the package, and what the plug-in adds; of two that compute the same, the better one comes first.
Models in MindFormers' `research` folder use the classes of the legacy generation."""

VERSIONS: dict[str, Version] = {
    version.name: version
    for version in (
        Version("1.0", "2.2.13", "7.0.0.beta1", "3.9", None, DOCUMENTED),
        Version("1.1", "2.3.0rc2", "8.0.RC1", "3.9", None, DOCUMENTED),
        Version("1.2", "2.3.0", "8.0.RC2", "3.10", None, DOCUMENTED),
        Version("1.3", "2.4.0", "8.0.RC3", "3.10", None, DOCUMENTED),
        Version("1.5", "2.6.0rc1", "8.1.RC1", "3.11", None, DOCUMENTED),
        Version("1.6", "2.7.0", "8.2.RC1", "3.11", "==4.51.3", SCHEMA),
        Version("1.7", "2.7.1", "8.3.RC1", "3.11", "==4.51.3", SCHEMA),
        Version("1.8", "2.7.2", "8.5.0", "3.11", "==4.57.1", SCHEMA),
        Version("1.9", "2.9.0", "9.0.0", "3.11", "==4.57.1", EXECUTED),
        Version("2.0", "2.10.0", "9.1.0", "3.11", "==4.57.1", DOCUMENTED),
        Version("2.1", "2.11.0", "9.2.0", "3.11", ">=5.3.0", DOCUMENTED),
    )
}
"""Name -> release, from old to new. There was no 1.4."""

LATEST_EXECUTED = next(name for name in reversed(VERSIONS) if VERSIONS[name].evidence == EXECUTED)
"""The version to advise where another one will not do."""


def version_named(name: str) -> Version:
    """A release by its name; patch numbers are of no matter (`1.3.2` is `1.3`).

    Raises:
        MindportError: there is no such release.
    """
    found = VERSIONS.get(".".join(name.strip().lstrip("rv").split(".")[:2]))
    if found is None:
        raise MindportError(
            tr("MindFormers has no version {version}.", version=name),
            tr("Choose one of {versions}.", versions=", ".join(VERSIONS)),
        )
    return found


def family_named(name: str, generation: str) -> Family | None:
    """A family by its name, in one generation."""
    return next((f for f in FAMILIES if (f.name, f.generation) == (name, generation)), None)
