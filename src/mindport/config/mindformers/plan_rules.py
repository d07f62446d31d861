"""What MindFormers asks of a parallel plan: devices, heads, vocabulary, sequences, experts, batches.

Each rule names, in its reason, what stops or what silently changes. They were read in MindFormers' own checks
(`tools/check_rules.py`, `TransformerConfig.__post_init__`, the attention, MoE and layer-setting modules of 1.3.2 and
1.6 to 2.1), and are scoped to the versions and generations that have them.
"""

from __future__ import annotations

from collections.abc import Callable

from mindport.config.mindformers.findings import ConfigFinding
from mindport.config.mindformers.judge import Case, Findings, listed
from mindport.config.mindformers.pipeline_rules import PIPELINE_RULES
from mindport.i18n import tr
from mindport.schema.parallel_plan import common_divisors, divisors, next_multiple

DIVIDES_HEADS = ("LlamaConfig",)
"""Legacy classes whose heads are always hidden_size / num_heads wide; others have a key for the width."""

REPEATS_KV_HEADS = ("ChatGLM2Config",)
"""Legacy classes that repeat key/value heads where there are too few for tensor parallelism."""

ALGORITHMS = ("colossalai_cp", "ulysses_cp", "hybrid_cp")


def unfit(case: Case) -> Findings:
    for key, value in case.placed.unfit:
        yield ConfigFinding(
            "wrong-type",
            "error",
            key,
            case.lines.get(key),
            tr("{key} = {value} is not a value it can have.", key=key, value=repr(value)[:60]),
            tr("sizes are whole numbers from 1, switches are true or false"),
        )


def devices(case: Case) -> Findings:
    plan = case.plan
    if case.devices is None or not plan.use_parallel:
        return
    product = plan.devices
    if plan.parallel_mode == "semi_auto" and product != case.devices:
        others = product // plan.data_parallel_size
        works = (
            f"data_parallel = {case.devices // others}"
            if case.devices % others == 0
            else tr("model_parallel * pipeline_stage * context_parallel that divides {devices}", devices=case.devices)
        )
        yield case.error(
            "devices",
            "data_parallel_size",
            tr(
                "data_parallel * model_parallel * context_parallel * pipeline_stage = {dp} * {tp} * {cp} * {pp} = "
                "{product}, on {devices} devices.",
                dp=plan.data_parallel_size,
                tp=plan.tensor_model_parallel_size,
                cp=plan.context_parallel_size,
                pp=plan.pipeline_model_parallel_size,
                product=product,
                devices=case.devices,
            ),
            tr("the product must be the number of devices; expert_parallel is not part of it"),
            works,
        )


def heads(case: Case) -> Findings:
    plan = case.plan
    heads, hidden, tp = plan.num_attention_heads, plan.hidden_size, plan.tensor_model_parallel_size
    if heads is None:
        return
    asks = case.mcore or case.config_class in DIVIDES_HEADS
    if asks and hidden is not None and hidden % heads and not plan.multi_latent_attention:
        yield case.error(
            "hidden-heads",
            "hidden_size",
            tr("hidden_size {hidden} is not a multiple of the {heads} heads.", hidden=hidden, heads=heads),
            tr("this class cannot be given head_dim")
            if case.legacy
            else tr("the training graph asks for it, even where head_dim is given"),
            tr("heads: {numbers}", numbers=listed(divisors(hidden))),
        )
    ulysses = plan.ulysses_degree_in_cp if plan.context_parallel_algo == "hybrid_cp" else 1
    if plan.context_parallel_algo == "ulysses_cp":
        ulysses = plan.context_parallel_size
    if heads % (tp * ulysses):
        yield case.error(
            "heads-tp",
            "tensor_model_parallel_size",
            tr("{heads} heads are not a multiple of {tp} tensor-parallel parts.", heads=heads, tp=tp)
            if ulysses == 1
            else tr(
                "{heads} heads are not a multiple of model_parallel * ulysses degree = {tp} * {ulysses}.",
                heads=heads,
                tp=tp,
                ulysses=ulysses,
            ),
            tr("whole heads go to each device"),
            f"model_parallel: {listed(common_divisors(heads, plan.num_query_groups))}",
        )
    groups = plan.num_query_groups
    if groups is not None and groups % tp and not plan.multi_latent_attention:
        message = tr("{groups} key/value heads are not a multiple of {tp} tensor-parallel parts.", groups=groups, tp=tp)
        works = f"model_parallel: {listed(common_divisors(heads, groups))}"
        if case.legacy and case.config_class in REPEATS_KV_HEADS:
            yield case.warning(
                "kv-heads-tp",
                "tensor_model_parallel_size",
                message,
                tr("this class repeats the heads, which costs memory; the newer attention refuses it"),
                works,
            )
        else:
            yield case.error(
                "kv-heads-tp", "tensor_model_parallel_size", message, tr("whole heads go to each device"), works
            )


def widths(case: Case) -> Findings:
    """Legacy feed-forward layers check their sizes; in mcore MindSpore would, at compile time, for the same reason."""
    plan, tp = case.plan, case.plan.tensor_model_parallel_size
    for name, value in (("hidden_size", plan.hidden_size), ("ffn_hidden_size", plan.ffn_hidden_size)):
        if case.legacy and value is not None and value % tp:
            yield case.error(
                "width-tp",
                name,
                tr("{key} = {value} is not a multiple of {tp} tensor-parallel parts.", key=name, value=value, tp=tp),
                tr("the matrices of a feed-forward layer are cut along it"),
                f"model_parallel: {listed(common_divisors(plan.hidden_size, plan.ffn_hidden_size))}",
            )


def vocabulary(case: Case) -> Findings:
    plan, tp = case.plan, case.plan.tensor_model_parallel_size
    if plan.vocab_size is not None and plan.vocab_size % tp:
        yield case.warning(
            "vocab-tp",
            "vocab_size",
            tr("vocab_size {vocab} is not a multiple of {tp} tensor-parallel parts.", vocab=plan.vocab_size, tp=tp),
            tr("embedding and head are then held whole on each device, and nothing says so"),
            tr(
                "{padded} rows, with the weights padded: `mindport convert --vocab-size {padded}`",
                padded=next_multiple(plan.vocab_size, tp),
            ),
        )
    if not (plan.use_parallel and plan.enable_parallel_optimizer and plan.parallel_mode == "semi_auto"):
        return
    count = case.devices or plan.devices
    for name, value in (("vocab_size", plan.vocab_size), ("hidden_size", plan.hidden_size)):
        if value is not None and value % count:
            yield case.note(
                "optimizer-shard",
                name,
                tr("{key} = {value} is not a multiple of the {count} devices.", key=name, value=value, count=count),
                tr("optimizer parallelism leaves tensors whole whose first dimension it cannot divide"),
            )


def sequence(case: Case) -> Findings:
    plan, cp = case.plan, case.plan.context_parallel_size
    if plan.sequence_parallel and plan.tensor_model_parallel_size == 1:
        message = tr("use_seq_parallel is on with model_parallel = 1.")
        works = tr("use_seq_parallel: False, or model_parallel from 2")
        if case.mcore:
            yield case.error("sp-without-tp", "sequence_parallel", message, tr("mcore refuses it"), works)
        else:
            yield case.warning("sp-without-tp", "sequence_parallel", message, tr("it has no effect"), works)
    if plan.fine_grain_interleave > 1 and case.since("1.3") and not plan.sequence_parallel and cp == 1:
        yield case.error(
            "fine-grain-without-sp",
            "fine_grain_interleave",
            tr("fine_grain_interleave = {value} without use_seq_parallel.", value=plan.fine_grain_interleave),
            tr("it overlaps the communication of sequence or context parallelism"),
            tr("use_seq_parallel: True, or fine_grain_interleave: 1"),
        )
    length, positions = plan.seq_length, plan.max_position_embeddings
    if length is not None and positions is not None and length > positions:
        yield case.warning(
            "seq-positions",
            "seq_length",
            tr(
                "seq_length {length} is longer than the {positions} positions of the model.",
                length=length,
                positions=positions,
            ),
            tr("it was not trained for the positions beyond"),
            tr("seq_length up to {positions}, or a scaling of the rotary embedding", positions=positions),
        )


def context_parallel(case: Case) -> Findings:
    plan, cp, algorithm = case.plan, case.plan.context_parallel_size, case.plan.context_parallel_algo
    if algorithm not in ALGORITHMS:
        yield case.error(
            "cp-algorithm",
            "context_parallel_algo",
            tr("There is no context_parallel_algo {name}.", name=algorithm),
            tr("MindFormers knows three"),
            ", ".join(ALGORITHMS),
        )
    if cp == 1:
        return
    if plan.use_flash_attention is False and case.since("1.3"):
        yield case.error(
            "cp-flash-attention",
            "context_parallel_size",
            tr("context_parallel = {cp} with use_flash_attention: False.", cp=cp),
            tr("only flash attention can work on parts of a sequence"),
            "use_flash_attention: True",
        )
    if plan.seq_length is not None and plan.seq_length % cp:
        yield case.error(
            "cp-seq",
            "context_parallel_size",
            tr("seq_length {length} is not a multiple of context_parallel = {cp}.", length=plan.seq_length, cp=cp),
            tr("the sequence is cut into equal parts"),
            f"seq_length: {next_multiple(plan.seq_length, cp)}",
        )
    heads = plan.num_query_groups or plan.num_attention_heads
    tp = plan.tensor_model_parallel_size
    if algorithm == "ulysses_cp" and heads is not None and cp * tp > heads:
        yield case.error(
            "ulysses-heads",
            "context_parallel_size",
            tr(
                "Ulysses: context_parallel * model_parallel = {cp} * {tp} is more than {heads} heads.",
                cp=cp,
                tp=tp,
                heads=heads,
            ),
            tr("it spreads the heads over these devices"),
            tr("context_parallel up to {value}, or colossalai_cp", value=max(1, heads // tp)),
        )
    if algorithm == "hybrid_cp" and cp % plan.ulysses_degree_in_cp:
        yield case.error(
            "ulysses-degree",
            "ulysses_degree_in_cp",
            tr(
                "ulysses_degree_in_cp {degree} does not divide context_parallel = {cp}.",
                degree=plan.ulysses_degree_in_cp,
                cp=cp,
            ),
            tr("the devices are a grid of the two ways"),
            f"ulysses_degree_in_cp: {listed(divisors(cp))}",
        )
    if algorithm == "hybrid_cp" and case.mcore and case.since("1.9"):
        yield case.error(
            "hybrid-mcore",
            "context_parallel_algo",
            tr("hybrid_cp is not to be had in mcore."),
            tr("the conversion of the configuration refuses it, although its message lists it"),
            "colossalai_cp, ulysses_cp",
        )


def experts(case: Case) -> Findings:
    plan, ep = case.plan, case.plan.expert_model_parallel_size
    dp, tp, count = plan.data_parallel_size, plan.tensor_model_parallel_size, plan.num_moe_experts
    if count is not None and count % ep:
        yield case.error(
            "experts-ep",
            "expert_model_parallel_size",
            tr("{experts} experts are not a multiple of expert_parallel = {ep}.", experts=count, ep=ep),
            tr("whole experts go to each device"),
            f"expert_parallel: {listed(common_divisors(count, dp if case.legacy else dp * tp))}",
        )
    ranks, product = (dp, "data_parallel") if case.legacy else (dp * tp, "data_parallel * model_parallel")
    if ranks % ep:
        yield case.error(
            "ep-ranks",
            "expert_model_parallel_size",
            tr("expert_parallel = {ep} does not divide {product} = {ranks}.", ep=ep, product=product, ranks=ranks),
            tr("experts are spread over these devices"),
            f"expert_parallel: {listed(common_divisors(ranks, count))}",
        )
    if plan.moe_token_dispatcher_type == "alltoall_deredundency" and ep < plan.npu_nums_per_device:
        yield case.error(
            "dispatcher-ep",
            "moe_token_dispatcher_type",
            tr("alltoall_deredundency with expert_parallel = {ep}.", ep=ep),
            tr("it needs at least as many as the {count} devices of a machine", count=plan.npu_nums_per_device),
            "alltoall",
        )
    if (
        count is not None
        and count > 1
        and tp > 1
        and not plan.sequence_parallel
        and case.since("1.6")
        and plan.use_parallel
    ):
        yield case.error(
            "moe-tp-without-sp",
            "sequence_parallel",
            tr("A model of experts with model_parallel = {tp} and without use_seq_parallel.", tp=tp),
            tr("MindFormers refuses it, since every device would compute the same tokens"),
            "use_seq_parallel: True",
        )


def inputs(case: Case) -> Findings:
    plan = case.plan
    if (
        plan.full_batch
        or not plan.use_parallel
        or plan.parallel_mode not in ("semi_auto", "auto")
        or not case.since("1.6")
    ):
        return
    strategy, dp = plan.dataset_strategy, plan.data_parallel_size
    works = f"dataset_strategy: [[{dp}, 1], ...]"
    if not isinstance(strategy, list) or not strategy or not isinstance(strategy[0], list) or not strategy[0]:
        yield case.error(
            "dataset-strategy",
            "dataset_strategy",
            tr("full_batch is off, and dataset_strategy does not say how the inputs are cut."),
            tr("each rank reads only its own part"),
            works,
        )
    elif strategy[0][0] != dp:
        yield case.error(
            "dataset-strategy",
            "dataset_strategy",
            tr(
                "dataset_strategy cuts the batch into {parts} parts, with data_parallel = {dp}.",
                parts=strategy[0][0],
                dp=dp,
            ),
            tr("each rank reads only its own part"),
            works,
        )


def optimizers(case: Case) -> Findings:
    plan = case.plan
    if plan.optimizer != "Muon":
        return
    wrong = []
    if not case.mcore:
        wrong.append(tr("it is only for mcore"))
    if not plan.multi_latent_attention:
        wrong.append(tr("it is only for models with latent attention"))
    if plan.optimizer_swap:
        wrong.append(tr("it cannot keep its states on the host (swap)"))
    shard = plan.optimizer_shard_size
    if shard is not None and shard > plan.data_parallel_size:
        wrong.append(
            tr(
                "optimizer_weight_shard_size {size} is more than data_parallel = {dp}",
                size=shard,
                dp=plan.data_parallel_size,
            )
        )
    for clause in wrong:
        yield case.error(
            "muon",
            "optimizer",
            tr("The optimizer Muon: {clause}.", clause=clause),
            tr("MindFormers refuses it"),
            "AdamW",
        )


RULES: tuple[Callable[[Case], Findings], ...] = (
    unfit,
    devices,
    heads,
    widths,
    vocabulary,
    sequence,
    context_parallel,
    experts,
    inputs,
    optimizers,
    *PIPELINE_RULES,
)


def check_plan(case: Case) -> list[ConfigFinding]:
    """Everything that is wrong with a plan, for one version and generation."""
    return [finding for rule in RULES for finding in rule(case)]
