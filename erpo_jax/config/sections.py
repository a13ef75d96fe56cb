"""Every key of the configuration, by section: default, meaning, unit, range. --help prints this file."""

from __future__ import annotations

from dataclasses import dataclass, field

from erpo_jax.config.keys import key


@dataclass
class ModelConfig:
    path: str = key(
        "quickstart", "checkpoint: a Hugging Face folder, a hub id, or 'quickstart' for the policy that ships"
    )
    revision: str | None = key(None, "hub revision (branch, tag or commit); null is the hub's default")
    shape: str | None = key(
        None, "config.json that describes the checkpoint, for --check and planning without the weights"
    )
    compute_dtype: str = key(
        "float32",
        "dtype of activations and matrix products; weights and moments stay float32",
        choices=("float32", "bfloat16"),
    )
    remat: bool = key(True, "recompute each layer's activations in the backward pass instead of keeping them")
    attention: str = key(
        "auto",
        "attention implementation; auto is cudnn on a GPU in bfloat16 and xla elsewhere",
        choices=("auto", "xla", "cudnn"),
    )


@dataclass
class MeshConfig:
    data: int = key(
        1, "copies of the sharded policy: each holds all parameters; devices used = data * fsdp * tensor", low=1
    )
    fsdp: int = key(1, "devices the parameters and the optimizer state are split over, with the batch", low=1)
    tensor: int = key(1, "devices each matrix product is split over (heads, feed-forward, vocabulary)", low=1)


@dataclass
class ProblemsConfig:
    path: str = key(
        "quickstart", "JSONL file of problems (erpo_jax.problems.Problem), or 'quickstart' for the set that ships"
    )
    limit: int = key(0, "use only the first so many problems of the file; 0 uses all", low=0)
    shuffle: bool = key(True, "visit problems in a new seeded order each pass; false keeps the file's order")
    allow_changed_data: bool = key(False, "go on with a run although its problem file has changed since it began")


@dataclass
class PromptConfig:
    style: str = key(
        "chat",
        "chat: the tokenizer's chat template; raw: the text as it stands (base models)",
        choices=("chat", "raw"),
    )
    system: str | None = key(None, "system message of the chat; null sends none")
    solve: str | None = key(
        None, "template of the request for a program, Jinja over the problem; null is the built-in text"
    )
    probe: str | None = key(
        None,
        "template of the request for one more input, Jinja over problem and accepted probes; null is the built-in text",
    )
    check: str | None = key(
        None, "template of the request for an input checker, Jinja over the problem; null is the built-in text"
    )
    prefill: bool = key(
        False, "begin the answer for the model: a fence '```python' and, for function problems, the starter code"
    )


@dataclass
class ProbesConfig:
    count: int = key(10, "K, probe inputs per problem", low=0)
    attempts: int = key(
        4, "requests for one more input per probe wanted; what is then missing is filled by mutation", low=0
    )
    batch: int = key(4, "inputs asked for at once per problem and round", low=1)
    temperature: float = key(1.0, "sampling temperature of probe requests", above=0.0)
    max_new_tokens: int = key(256, "longest answer to a probe request, in tokens", low=1)
    trial_programs: int = key(
        4, "programs sampled once per problem; a probe that crashes all of them is refused; 0 turns that off", low=0
    )
    checker: str = key(
        "auto",
        "input constraints: rules read off the statement; a checker the policy writes; auto: rules, else the policy",
        choices=("auto", "rules", "model", "none"),
    )
    store: str = key(
        "runs/probes", "folder of stored probes; a problem's probes are made once per problem and generator settings"
    )


@dataclass
class RolloutConfig:
    engine: str = key(
        "jax",
        "what samples: jax is the embedded sampler; vllm has servers of its own (section vllm, docs/vllm.md)",
        choices=("jax", "vllm"),
    )
    group_size: int = key(16, "G, candidate programs per problem and step", low=1)
    temperature: float = key(
        1.0, "sampling temperature T; log-probs, ratios and entropies are of logits / T", above=0.0
    )
    top_p: float = key(1.0, "nucleus sampling; only 1.0 (off) is allowed in training", low=1.0, high=1.0)
    top_k: int = key(-1, "top-k sampling; only -1 (off) is allowed in training", low=-1, high=-1)
    max_prompt_tokens: int = key(1024, "longest prompt; a problem whose prompt is longer is left out and named", low=1)
    max_new_tokens: int = key(4096, "longest answer; one that reaches it counts as truncated", low=1)
    batch_rows: int = key(64, "answers sampled side by side by the embedded engine", low=1)
    async_steps: int = key(
        0,
        "1: the next step's answers are sampled while the update runs, by the policy of one step before; "
        "the ratio is then taken against the log-probs they were drawn with",
        low=0,
        high=1,
    )
    mixed_versions: str = key(
        "refuse",
        "answers made by other weights than were asked: refuse (they leave their group, counted and named) or "
        "mark (they stay, counted; their version is in the rollout records)",
        choices=("refuse", "mark"),
    )
    max_logprob_gap: float | None = key(
        None,
        "mean log-prob gap between sampler and trainer, nats, above which the run stops; null is 0.001 where both "
        "compute in float32, 0.05 with bfloat16, 0.3 with several updates a step or async_steps",
        above=0.0,
    )
    check_every: int = key(
        0,
        "steps between comparisons of the engine's greedy answers with the trainer's own forward; 0: at the start and "
        "after the first refresh alone; the embedded engine has nothing to compare",
        low=0,
    )


@dataclass
class VllmConfig:
    python: str = key(
        ".venv-vllm/bin/python", "the Python that has vLLM, an environment of its own; `make vllm` makes it"
    )
    kind: str = key(
        "server",
        "server: HTTP servers; process: one process over pipes, for small models (up in a third of the time)",
        choices=("server", "process"),
    )
    urls: list[str] = key([], "servers that already run, such as [http://node1:8000]; none are started then")
    servers: int = key(1, "servers to start, one per GPU or tensor-parallel group", low=1)
    tensor_parallel: int = key(1, "GPUs per server", low=1)
    placement: str = key(
        "none",
        "none: no GPU is assigned; colocated: servers share the trainer's GPUs; split: some GPUs train, some serve",
        choices=("none", "colocated", "split"),
    )
    devices: list[int] = key([], "GPUs that serve, servers * tensor_parallel of them, as in CUDA_VISIBLE_DEVICES")
    train_devices: list[int] = key([], "placement=split: GPUs that train, as many as the mesh has")
    memory_fraction: float = key(0.4, "share of a GPU's memory that vLLM takes", above=0.0, high=0.95)
    jax_memory_fraction: float = key(
        0.5,
        "share of a GPU's memory that JAX takes; placement=colocated: both together at most 0.95",
        above=0.0,
        high=0.95,
    )
    sleep: int = key(
        0,
        "placement=colocated: vLLM gives its memory back while the trainer updates; 1 keeps the weights in host "
        "memory, 2 drops them, 0 is off",
        low=0,
        high=2,
    )
    host: str = key("127.0.0.1", "address that started servers listen on; their control endpoints know no password")
    port: int = key(0, "port of the first server, the next has the next; 0 takes free ones", low=0, high=65535)
    dtype: str = key(
        "auto",
        "what servers compute in, and weights travel in; auto is model.compute_dtype; servers of vllm.urls: say theirs",
        choices=("auto", "float32", "bfloat16"),
    )
    concurrency: int = key(64, "answers in the making at once, per server", low=1)
    answer_timeout_s: float = key(
        900.0, "seconds after which an answer that has not come is given up as lost", above=0.0
    )
    start_timeout_s: float = key(900.0, "seconds a server may take to start", above=0.0)
    probe_timeout_s: float = key(
        60.0, "seconds in which a server that is not hung answers a request of one token", above=0.0
    )
    restarts: int = key(
        3, "restarts of dead or hung servers in one run; the next one ends it, after a checkpoint", low=0
    )
    exports: str = key(
        "auto",
        "folder for the weights that servers load; auto is /dev/shm where three copies fit, else the run folder",
    )
    arguments: list[str] = key([], "more flags for started servers, such as [--max-num-batched-tokens, '8192']")


@dataclass
class SandboxConfig:
    backend: str = key(
        "local",
        "where programs run: on this machine, or on the nodes of a Ray cluster (the extra `ray`)",
        choices=("local", "ray"),
    )
    ray_address: str = key(
        "auto", "backend ray: the cluster's host:port; auto is the cluster that this machine belongs to"
    )
    workers: int = key(0, "worker processes; 0 is one per core (backend ray: one per free CPU of the cluster)", low=0)
    cpu_limit_s: float = key(0.0, "CPU seconds per program and input; 0 takes each problem's own limit", low=0.0)
    memory_limit_mb: int = key(0, "memory per program, MiB; 0 takes each problem's own limit", low=0)
    output_limit_kb: int = key(1000, "output per program and input, kB; more is the verdict output_limit", low=1)
    skip_after_timeout: bool = key(
        True, "skip a candidate's later probes after its first timeout (they count as timeouts)"
    )
    preload_numpy: bool = key(False, "import numpy once per worker, for programs that use it")
    tier: str = key(
        "auto",
        "isolation: auto takes the strongest that passes the self-test; see docs/sandbox.md",
        choices=("auto", "namespaces", "landlock", "seccomp", "unsafe"),
    )
    unsafe: bool = key(
        False, "run programs without isolation where none is to be had; never for programs you do not trust"
    )


@dataclass
class RewardConfig:
    kind: str = key(
        "pcr",
        "pcr: probe consensus; majority: 1 for the most frequent outputs over all probes, else 0; "
        "public: passed share of the statement's public tests",
        choices=("pcr", "majority", "public"),
    )
    ambiguous: str = key(
        "count",
        "a probe without a clear majority: count it as it is, or drop it for the whole group",
        choices=("count", "drop"),
    )
    quorum: float = key(0.5, "share of the outputs that the largest cluster must exceed to be clear", low=0.0, high=1.0)
    truncated: str = key(
        "score",
        "answers cut by the length limit: score them as the broken code they are, or drop them from the group",
        choices=("score", "drop"),
    )


@dataclass
class MaskConfig:
    kind: str = key(
        "rank",
        "rank: the lowest `percent` of the group; none: all; below: PCR < threshold; soft: weight 1 - rank/(G-1); "
        "calibrated: weight by `calibration`",
        choices=("rank", "none", "below", "soft", "calibrated"),
    )
    percent: int = key(
        50, "mask.kind=rank: the first (G*percent)//100 of the ascending order are kept", low=0, high=100
    )
    threshold: float = key(0.5, "mask.kind=below: candidates with a reward below it are kept", low=0.0, high=1.0)
    calibration: list[float] = key(
        [0.91, 0.91, 0.44],
        "mask.kind=calibrated: how surely a program is wrong, at equal steps of PCR from 0 to 1; the nearest counts "
        "(default: the paper's Qwen3-4B)",
    )
    sign: str = key(
        "keep",
        "keep: kept advantages keep their sign; negative: also needs a negative advantage",
        choices=("keep", "negative"),
    )


@dataclass
class LossConfig:
    advantage: str = key(
        "group",
        "group: (reward - mean) / (std + 1e-6) within the group; minus_one: -1 for every kept candidate (NSR)",
        choices=("group", "minus_one"),
    )
    denominator: str = key(
        "all_tokens",
        "what the policy term is divided by: all response tokens; those of candidates with weight; or sequence means",
        choices=("all_tokens", "kept_tokens", "sequences"),
    )
    clip: float = key(0.2, "e of the ratio clip, [1-e, 1+e]", above=0.0, high=1.0)
    dual_clip: float = key(3.0, "bound of the ratio where the advantage is negative", above=1.0)
    entropy_coefficient: float = key(1.0, "c of c * max(0, H - ceiling)^2; 0 turns the term off", low=0.0)
    entropy_ceiling: float = key(0.5, "H above which entropy is pushed down, nats per token", low=0.0)
    importance_cap: float = key(
        0.0,
        "per-token weight min(pi_trainer / pi_sampler, cap) against sampler/trainer mismatch; 0 is off",
        low=0.0,
    )


@dataclass
class UpdateConfig:
    epochs: int = key(1, "passes over each step's rollouts", low=1)
    minibatches: int = key(1, "optimizer updates per pass; whole groups are split", low=1)
    row_tokens: int = key(0, "tokens a packed row; 0 is the longest prompt plus the longest answer", low=0)
    micro_batch_rows: int = key(8, "packed rows per micro-batch, over all devices", low=1)
    chunk_tokens: int = key(512, "tokens per chunk of the log-prob and entropy computation, per row shard", low=1)


@dataclass
class OptimizerConfig:
    learning_rate: float = key(5e-7, "AdamW step size after the warm-up", above=0.0)
    warmup_steps: int = key(
        20, "update n = 0, 1, ... uses learning_rate * (n+1) / warmup_steps until it is reached", low=0
    )
    beta1: float = key(0.9, "decay of the first moment", low=0.0, high=0.999999)
    beta2: float = key(0.999, "decay of the second moment", low=0.0, high=0.9999999)
    epsilon: float = key(1e-8, "added to the root of the second moment", above=0.0)
    weight_decay: float = key(0.01, "decoupled weight decay; norms and biases get none", low=0.0)
    first_moment_dtype: str = key(
        "float32",
        "dtype in which the first moment rests; bfloat16 saves 2 bytes a parameter",
        choices=("float32", "bfloat16"),
    )
    max_grad_norm: float = key(1.0, "global gradient norm above which the gradient is scaled down", above=0.0)


@dataclass
class TrainConfig:
    steps: int = key(150, "training steps of the run", low=0)
    problems_per_step: int = key(16, "B, problems per step", low=1)
    seed: int = key(0, "seed of problem order, sampling and probes", low=0)
    checkpoint_every: int = key(10, "steps between checkpoints; the last step and SIGTERM write one too", low=1)
    keep_checkpoints: int = key(2, "newest checkpoints that are kept", low=1)
    export_every: int = key(0, "steps between exported Hugging Face folders; 0 exports the last step alone", low=0)
    max_nonfinite: int = key(3, "non-finite updates in a row that stop the run", low=1)


@dataclass
class EvaluateConfig:
    problems: str = key("quickstart", "JSONL file of the problems to measure on, or 'quickstart'")
    hidden: str = key("quickstart", "JSONL file of their hidden tests, read by evaluation alone, or 'quickstart'")
    limit: int = key(0, "use only the first so many problems; 0 uses all", low=0)
    samples: int = key(16, "n, programs per problem", low=1)
    k: list[int] = key([1, 16], "k of pass@k; each at most `samples`")
    temperatures: list[float] = key(
        [0.3, 0.5, 0.7, 1.0, 1.3], "temperatures of the untrained policy's curve; 0 is greedy"
    )
    max_new_tokens: int = key(0, "longest answer, tokens; 0 takes rollout.max_new_tokens", low=0)
    before_and_after: bool = key(True, "launch/train.py measures the policy before the first and after the last step")
    seed: int = key(1_000_003, "seed of the evaluation's sampling", low=0)


@dataclass
class RunConfig:
    folder: str = key("runs", "where run folders are made")
    name: str = key("quickstart", "name of the run; the same name goes on with the same run")
    compilation_cache: str | None = key(
        "~/.cache/erpo_jax/xla", "folder of compiled programs, kept between runs; null keeps none"
    )


@dataclass
class Config:
    run: RunConfig = field(default_factory=RunConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    problems: ProblemsConfig = field(default_factory=ProblemsConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    probes: ProbesConfig = field(default_factory=ProbesConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    vllm: VllmConfig = field(default_factory=VllmConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
