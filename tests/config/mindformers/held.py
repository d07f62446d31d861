"""What the configuration objects of MindFormers must hold of a model that a YAML has told them of."""

from __future__ import annotations

from typing import Any

from mindport.schema import TransformerConfig
from mindport.targets.mindformers.graphs import Graph
from mindport.targets.mindformers.spellings import LEGACY_ROPE, SPARSE
from mindport.targets.mindformers.versions import LEGACY, MCORE, Version, version_named


def expected(field: str, config: TransformerConfig, graph: Graph, version: Version) -> dict[str, Any]:
    """Attribute of MindFormers' configuration -> its value, for a field that the graph is told.

    In mcore that is the `TransformerConfig` which the model's own class is converted to.
    """
    metadata = TransformerConfig.__dataclass_fields__[field].metadata
    value, latent_yarn = getattr(config, field), graph.latent and config.rope_scaling is not None
    if field in ("bos_token_id", "eos_token_id") and (graph.generation == MCORE or value is None):
        return {}  # of no use in training: not kept, or left to the class
    if field == "pad_token_id" and graph.generation == MCORE and version.order < version_named("1.8").order:
        return {field: 0, "use_attn_mask_compression": value != 0}  # it is not read, so nothing may depend on it
    if field == "pad_token_id":
        return {field: -1 if value is None else value}
    if field == "rope_scaling" and graph.latent:
        scaling = value or {"factor": 1.0}
        kept = {
            name: scaling[name] for name in ("mscale", "mscale_all_dim", "beta_fast", "beta_slow") if name in scaling
        }
        kind = {"position_embedding_type": "yarn" if value else "rope"}
        return {"rotary_scaling_factor": scaling["factor"], **kept, **kind}
    if field == "rope_scaling":
        written = LEGACY_ROPE.write("extend_method", field, config)
        return written if value else {"extend_method": "None"}
    if field == "max_position_embeddings" and latent_yarn:
        assert config.rope_scaling is not None
        return {field: config.rope_scaling["original_max_position_embeddings"]}
    if field == "moe_shared_expert_intermediate_size":
        return {field: value}
    if field == "moe_layer_freq" and version.order < version_named("1.7").order:
        return SPARSE.write("first_k_dense_replace", field, config)  # which later versions fold into one list
    if field == "moe_layer_freq":
        return {field: value or 1}
    return {metadata["legacy" if graph.generation == LEGACY else "mcore"].split()[0]: value}
