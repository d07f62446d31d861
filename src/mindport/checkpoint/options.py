"""What may be asked of a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindport.checkpoint.dtypes import FLOATS
from mindport.checkpoint.policy import GROUPS, KEEP, DtypePolicy
from mindport.schema import VocabChange


@dataclass(frozen=True)
class Options:
    """How weights are to be written.

    Args:
        weights_format: "safetensors" or "ckpt"; the way back to Hugging Face has only the first.
        shard_bytes: most bytes of weights in a file; None: one file.
        policy: dtypes.
        vocab_size: rows of embedding and head afterwards; None: as they are.
        vocab_rule: initial values of new rows, in `schema.VOCAB_RULES`; None where there are none.
        vocab_map: new row -> old row or None; None: old rows keep their numbers.
        keep_vocab: on the way back, leave the vocabulary as it was made.
    """

    weights_format: str = "safetensors"
    shard_bytes: int | None = None
    policy: DtypePolicy = KEEP
    vocab_size: int | None = None
    vocab_rule: str | None = None
    vocab_map: tuple[object, ...] | None = None
    keep_vocab: bool = False

    @staticmethod
    def from_json(record: Mapping[str, Any], vocab: VocabChange | None) -> Options:
        """From a manifest, and the change of the vocabulary that `ms_config.json` has.

        Raises:
            KeyError, TypeError, ValueError: it is not one.
        """
        groups = tuple(record["dtypes"].items())
        if {record["dtype"], *dict(groups).values()} - {None, *FLOATS} or dict(groups).keys() - GROUPS.keys():
            raise ValueError(record)
        return Options(
            record["format"],
            record["shard_bytes"],
            DtypePolicy(record["dtype"], groups),
            vocab.after if vocab else None,
            vocab.rule if vocab else None,
            vocab.mapping if vocab else None,
            record["keep_vocab"],
        )

    def to_json(self) -> dict[str, Any]:
        """For the manifest; a vocabulary map is in `ms_config.json`."""
        return {
            "format": self.weights_format,
            "shard_bytes": self.shard_bytes,
            "dtype": self.policy.default,
            "dtypes": dict(self.policy.groups),
            "vocab_size": self.vocab_size,
            "vocab_rule": self.vocab_rule,
            "keep_vocab": self.keep_vocab,
        }


PLAIN = Options()
"""Everything as it is, in one file."""
