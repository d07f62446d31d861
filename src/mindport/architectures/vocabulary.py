"""What a declaration is made of: rules for config keys, and names for weights.

A declaration (one file per Hugging Face model_type in this folder) is data: it lists rules and tensor names. Reading a
config, writing one, placing tensors, generating test models and the documentation all work from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.layout import Stored
from mindport.schema import TransformerConfig

HFConfig = Mapping[str, Any]
"""A Hugging Face config with class defaults filled in, by key."""

STRUCTURE, TRAINING, RUNTIME, RECORD = "structure", "training", "runtime", "record"
"""Layers of a config key: shapes and numerics of the model; training only; how it is run; bookkeeping."""


class Rule(Protocol):
    """How one or more keys of a Hugging Face config relate to `TransformerConfig`."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys this rule reads and writes."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other spellings of the only key."""

    @property
    def layer(self) -> str:
        """STRUCTURE, TRAINING, RUNTIME or RECORD."""

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        """The canonical fields these keys determine.

        Raises:
            MindportError: a value of the wrong type, or one the native model cannot express.
        """

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        """The keys and values that decode to this config's fields."""


@dataclass(frozen=True)
class Field:
    """One key that is one canonical field (or several fields that one key sets alike).

    Args:
        key: the Hugging Face key.
        to: canonical field, or fields.
        kind: int, float, bool, str, or a tuple of the values that are allowed.
        derive: what null means, from the keys before it.
        aliases: other spellings of the key that files contain.
        nullable: null is a value of its own and stays null.
        minimum, maximum: bounds of a number.
    """

    key: str
    to: str | tuple[str, ...]
    kind: type | tuple[Any, ...]
    derive: Callable[[HFConfig], Any] | None = None
    aliases: tuple[str, ...] = ()
    layer: str = STRUCTURE
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.to,) if isinstance(self.to, str) else self.to

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        value = hf[self.key]
        if not (value is None and self.nullable):
            value = checked(self.key, value, self.kind, self.minimum, self.maximum)
        return dict.fromkeys(self.targets, value)

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {self.key: getattr(config, self.targets[0])}


@dataclass(frozen=True)
class Computed:
    """One key whose meaning in canonical terms needs a formula.

    Args:
        decode_with: (value, config) -> canonical fields.
        encode_with: config -> value, its inverse.
        derive: what null means, from the keys before it.
    """

    key: str
    kind: type | tuple[Any, ...]
    decode_with: Callable[[Any, HFConfig], dict[str, Any]]
    encode_with: Callable[[TransformerConfig], Any]
    derive: Callable[[HFConfig], Any] | None = None
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        return self.decode_with(checked(self.key, hf[self.key], self.kind), hf)

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {self.key: self.encode_with(config)}


@dataclass(frozen=True)
class Joint:
    """Several keys that say something only together.

    Args:
        decode_with: config -> canonical fields, the same ones whatever the keys say.
        encode_with: canonical config -> all of the keys, its inverse.
        cases: the combinations that models have, by name; keys left out are as `encode_with` gives them.
    """

    keys: tuple[str, ...]
    decode_with: Callable[[HFConfig], dict[str, Any]]
    encode_with: Callable[[TransformerConfig], dict[str, Any]]
    cases: Mapping[str, Mapping[str, Any]]
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        return self.decode_with(hf)

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return self.encode_with(config)


@dataclass(frozen=True)
class Repeats:
    """A key that says once more what other keys say; absent or null it says nothing. Any other value is refused.

    Args:
        says: the key that counts, or config -> the value that this one has to have.
        reason: why it can say nothing else.
        back: canonical config -> the value to write, where a file should have it.
    """

    key: str
    says: str | Callable[[HFConfig], Any]
    reason: str = "another key says so, and this one is not read"
    back: Callable[[TransformerConfig], Any] | None = None
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        value = hf.get(self.key)
        if value is not None:
            wanted = hf[self.says] if isinstance(self.says, str) else self.says(hf)
            Only(self.key, wanted, self.reason).decode({self.key: value})
        return {}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {} if self.back is None else {self.key: self.back(config)}


@dataclass(frozen=True)
class Only:
    """A key of which the native model expresses one value only; any other is refused."""

    key: str
    value: Any
    reason: str
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        if hf.get(self.key, self.value) != self.value:
            raise MindportError(
                tr(
                    "{key} = {value} is not supported: {reason}.",
                    key=self.key,
                    value=brief(hf[self.key]),
                    reason=tr(self.reason),
                ),
                tr("Supported value: {value!r}.", value=self.value),
            )
        return {}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {self.key: self.value}


@dataclass(frozen=True)
class Naming:
    """A switch that says how files name their tensors, and nothing about what the model computes.

    Args:
        table: value -> number of the architecture's table of tensors; 0 is `tensors`, the rest `alternatives`.
    """

    key: str
    table: Mapping[bool, int]
    layer: str = RECORD
    aliases: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        checked(self.key, hf[self.key], bool)
        return {}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Ignored:
    """Keys that do not change what the model computes, with the reason."""

    keys: tuple[str, ...]
    reason: str
    layer: str = RUNTIME
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        return {}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class HFClass:
    """One model class of an architecture: which canonical head it is, and what its files may carry besides.

    Args:
        fields: canonical fields this class fixes, `head` among them.
        optional: canonical switch -> slot; the file has the slot's tensor or the switch is off.
        unused: tensor templates that files of this class may contain and the class does not read -> reason.
    """

    fields: Mapping[str, Any]
    optional: Mapping[str, str] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Architecture:
    """Everything Mindport knows about one Hugging Face model_type.

    Tensor names are templates matched exactly and in full: `{base}` is the prefix of the bare model, `{p}` weight or
    bias, and the other placeholders are indices (`schema.slots.INDICES`). An index that only the slots of a tensor have
    runs over all its values within that tensor. A tensor exists where its slots do, so presence is said once, in the
    slots.

    Args:
        model_type: as in config.json.
        title: names people know it by.
        classes: Hugging Face class name -> HFClass; the first is assumed where a config names none.
        constants: canonical fields equal for every model of this architecture.
        computed: canonical fields computed from the config rather than copied.
        rules: config keys, in an order in which each may derive from those before it.
        tensors: tensor name -> slot, or Stored where several slots or a layout are involved.
        alternatives: tables of tensors that some files hold instead of those of `tensors` made of the same slots.
        conditional: tables of tensors that models of some configs have instead of those made of the same slots, each
            after the condition.
        bases: spellings of `{base}`, the one transformers writes for models with a head first.
        spellings: sets of replacements in declared names that some files use throughout; () is as declared.
        unused: stored buffers that are recomputed -> reason. They are skipped.
        tied: names of copies -> the slot they must equal where the config ties them.
        reference_attention: transformers' implementation of attention that the model is compared with.
    """

    model_type: str
    title: str
    classes: Mapping[str, HFClass]
    constants: Mapping[str, Any]
    rules: tuple[Rule, ...]
    tensors: Mapping[str, str | Stored]
    computed: Mapping[str, Callable[[HFConfig], Any]] = field(default_factory=dict)
    alternatives: tuple[Mapping[str, str | Stored], ...] = ()
    conditional: tuple[tuple[Callable[[TransformerConfig], bool], Mapping[str, str | Stored]], ...] = ()
    bases: tuple[str, ...] = ("",)
    spellings: tuple[tuple[tuple[str, str], ...], ...] = ((),)
    unused: Mapping[str, str] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    reference_attention: str = "eager"

    def rule_for(self, key: str) -> Rule | None:
        """The rule that owns a config key, under its own or another spelling."""
        return next((rule for rule in self.rules if key in rule.keys or key in rule.aliases), None)


LARGEST = 2**53
"""Of integers in a config: far above any real size, and still exact as a float."""

_TYPE_NAMES = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a string",
    dict: "an object",
    list: "a list",
}


def checked(
    key: str,
    value: Any,
    kind: type | tuple[Any, ...],
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """`value` as `kind`, or an error that names the key.

    Raises:
        MindportError: the value has another type, is not finite, out of bounds, or not among the allowed values.
    """
    if isinstance(kind, tuple):
        if value in kind:
            return value
        allowed = ", ".join(repr(v) for v in kind)
        raise MindportError(
            tr("{key} = {value} is not supported.", key=key, value=brief(value)),
            tr("Supported values: {allowed}.", allowed=allowed),
        )
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            value = math.inf if value > 0 else -math.inf
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise MindportError(
            tr("{key} must be {kind}, not {value}.", key=key, kind=tr(_TYPE_NAMES[kind]), value=brief(value)),
            tr("Correct it in config.json."),
        )
    number: Any = value
    if kind is int:
        minimum = -LARGEST if minimum is None else minimum
        maximum = LARGEST if maximum is None else maximum
    if kind is float and not math.isfinite(number):
        raise MindportError(
            tr("{key} must be finite, not {value}.", key=key, value=value), tr("Correct it in config.json.")
        )
    if minimum is not None and number < minimum:
        raise MindportError(
            tr("{key} must be at least {minimum}, not {value}.", key=key, minimum=minimum, value=brief(value)),
            tr("Correct it in config.json."),
        )
    if maximum is not None and number > maximum:
        raise MindportError(
            tr("{key} must be at most {maximum}, not {value}.", key=key, maximum=maximum, value=brief(value)),
            tr("Correct it in config.json."),
        )
    return value
