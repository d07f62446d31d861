"""What changed in the YAML between versions of MindFormers: one table, read in both directions.

Keys that a version does not know are not listed here: the tables in `schema/` say since when and until when each is
known. Sources: the published packages and the files shipped with them; the names of classes from the registry.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE


@dataclass(frozen=True)
class Renamed:
    """A key has another name.

    Args:
        version: the first with the new name.
        section: the section of both, dotted; "" = the top level.
        old, new: the names.
        generations: that have it.
    """

    version: str
    section: str
    old: str
    new: str
    generations: tuple[str, ...] = (LEGACY, MCORE)


@dataclass(frozen=True)
class Reclassed:
    """A class, or a word, has another name.

    Args:
        version: the first with the new name.
        path: the key that holds it; of callbacks, of each in the list.
        old, new: the names.
        generations: that have it.
    """

    version: str
    path: str
    old: str
    new: str
    generations: tuple[str, ...] = (LEGACY, MCORE)


@dataclass(frozen=True)
class Repeated:
    """A setting has a second place, in a section of its own; the old one is still read.

    Going back, the setting is written to the old place. The section as such is unknown there, and set aside.

    Args:
        version: the first with the new place.
        old, new: the places, dotted.
        generations: that have it.
    """

    version: str
    old: str
    new: str
    generations: tuple[str, ...] = (LEGACY, MCORE)


@dataclass(frozen=True)
class Redefaulted:
    """A key that is absent means something else. It matters only for a file whose version is known.

    Args:
        version: the first with the new meaning.
        path: the key, by the name it has from that version on.
        before: its name before.
        old, new: what absence means, as YAML.
        generations: that have it.
    """

    version: str
    path: str
    before: str
    old: str
    new: str
    generations: tuple[str, ...] = (LEGACY, MCORE)


Change = Renamed | Reclassed | Repeated | Redefaulted

CHANGES: tuple[Change, ...] = (
    Reclassed("1.2", "callbacks.type", "CheckpointMointor", "CheckpointMonitor"),
    Reclassed("1.5", "callbacks.type", "ColdHotExpertMointor", "ColdHotExpertMonitor"),
    Reclassed("1.7", "model.model_config.moe_router_load_balancing_type", "aux_loss", "sub_seq_aux_loss", (MCORE,)),
    Redefaulted(
        "1.7",
        "model.model_config.use_contiguous_weight_layout_attention",
        "model.model_config.use_contiguous_weight_layout",
        "True",
        "False",
        (MCORE,),
    ),
    Renamed(
        "1.7",
        "model.model_config",
        "use_contiguous_weight_layout",
        "use_contiguous_weight_layout_attention",
        (MCORE,),
    ),
    Renamed("1.8", "", "ckpt_use_legacy_format", "use_legacy_format"),
    Repeated("1.9", "load_checkpoint", "checkpoint.load_path"),
    Repeated("1.9", "balanced_load", "checkpoint.load_balanced"),
    Renamed("2.0", "profiler", "enable_profiler", "enable_profiling", (PYNATIVE,)),
    Renamed("2.0", "profiler", "stop_step", "end_step", (PYNATIVE,)),
    Renamed("2.1", "monitor.tensorboard", "tensorboard_dir", "output_dir", (PYNATIVE,)),
    Renamed("2.1", "monitor.tensorboard", "tensorboard_log_interval", "log_interval", (PYNATIVE,)),
    Renamed("2.1", "monitor.tensorboard", "tensorboard_queue_size", "queue_size", (PYNATIVE,)),
)

ADAM = ("FP32StateAdamWeightDecay", "FusedAdamWeightDecay", "adamw", "fp32_adamw", "fused_adamw")
"""Optimizers until 1.5 that AdamW replaces, which is there since 1.2. They take beta1 and beta2, and AdamW betas."""

ADAM_UNTIL, ADAM_SINCE = "1.5", "1.2"

SECTION_SPANS = {
    "swap_config": "1.5-",
    "monitor_config": "1.5-",
    "checkpoint": "1.9-",
    "grouped_lr_schedule": "1.9-",
}
"""Sections that not all versions read."""
