"""Times a training step of ViT-S* in PyTorch, in the form of a variant of gpu_variants.py."""
import math
import statistics
import sys
import time

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor

from dtn_separable_torch import SeparableTokenNorm
from vit_fast_torch import FastVisionTransformer, smoothed_loss
from vit_torch import DynamicTokenNorm, decay_groups

FULL = dict(channels=432, heads=9, depth=12, image=224, classes=1000, cls_at=10)
TINY = dict(channels=48, heads=3, depth=3, image=64, classes=10, cls_at=2)
DROP_PATH, LEARNING_RATE, WEIGHT_DECAY = 0.1, 1e-4, 0.05
SETTLING_STEPS = 3  # torch.compile runs a step, records its CUDA graph in the next, then replays it


def set_up_process(variant, on_gpu):
    """Sets options of the whole process, so each variant needs a process of its own."""
    torch.set_float32_matmul_precision("high")  # TF32 for products of float32
    if variant.partition == "recompute":  # turns off two rules that keep cheap results
        torch._functorch.config.ban_recompute_used_far_apart = False
        torch._functorch.config.ban_recompute_long_fusible_chains = False
    # torch.compile keeps its results on disk under a key that does not contain the attention.
    torch.compiler.config.cache_key_tag = variant.attention
    if not on_gpu:
        return
    torch.backends.cudnn.benchmark = True
    cuda = torch.backends.cuda
    for name, enable in (("cudnn", cuda.enable_cudnn_sdp), ("flash", cuda.enable_flash_sdp),
                         ("efficient", cuda.enable_mem_efficient_sdp)):
        enable(name == variant.attention)
    cuda.enable_math_sdp(False)  # otherwise it silently replaces the chosen attention
    if variant.graph:  # warm-up and capture on one stream, which must not be the default one
        torch.cuda.set_stream(torch.cuda.Stream())


def compile_as(variant, function, on_gpu):
    if variant.execution == "eager":
        return function
    modes = {"tuned": {"max_autotune": True}, "reduceoverhead": "reduce-overhead",
             "maxautotune": "max-autotune"}
    options = modes.get(variant.execution, {})
    if isinstance(options, str):
        options = dict(torch._inductor.list_mode_options(options))
        if on_gpu:  # otherwise a run without graphs is only logged
            options["triton.cudagraph_or_error"] = True
    return torch.compile(function, fullgraph=True, dynamic=False, options=options or None)


def narrow_parameters(model):
    """Converts parameters to bfloat16, except those of DTN, which computes in float32. Returns the
    float32 masters of the converted parameters, by name."""
    wide = {id(p) for m in model.modules() if isinstance(m, (DynamicTokenNorm, SeparableTokenNorm))
            for p in m.parameters()}
    masters = {}
    for name, p in model.named_parameters():
        if id(p) not in wide:
            masters[name] = torch.nn.Parameter(p.detach().clone())
            p.data = p.data.to(torch.bfloat16)
    return masters


class Training:
    """Whole steps on random images on the device. `dtype`: the type of the computation."""

    def __init__(self, variant, shape, batch, device, dtype=torch.bfloat16):
        torch.manual_seed(0)
        self.variant, self.device = variant, device
        self.model = FastVisionTransformer(variant, **shape).to(device).train()
        images = torch.randn(batch, 3, shape["image"], shape["image"], device=device)
        if variant.patches == "conv":
            self.model.to(memory_format=torch.channels_last)
            images = images.contiguous(memory_format=torch.channels_last)
        self.dtype = dtype
        self.autocast = variant.residual == "fp32res" and dtype == torch.bfloat16
        self.masters = narrow_parameters(self.model) if variant.residual == "bf16res" else {}
        for master in self.masters.values():
            master.grad = torch.zeros_like(master)
        self.narrow = [p for name, p in self.model.named_parameters() if name in self.masters]
        self.optimizer = self.make_optimizer()
        depth = shape["depth"]
        keep = 1 - DROP_PATH * torch.arange(depth, device=device) / (depth - 1)
        self.keep = keep.repeat_interleave(2)[:, None].expand(-1, batch).contiguous()
        self.batch = images, torch.arange(batch, device=device) % shape["classes"]
        for tensor in self.batch:  # so that a CUDA graph reads it where it is
            torch._dynamo.mark_static_address(tensor)
        self.loss = compile_as(variant, self.compute_loss, device == "cuda")

    def make_optimizer(self):
        groups = decay_groups(self.model, WEIGHT_DECAY, self.masters)
        if self.variant.optimizer == "foreach":
            return torch.optim.AdamW(groups, lr=LEARNING_RATE, foreach=True)
        if self.variant.graph and self.device == "cuda":  # a tensor: schedules can change it
            lr = torch.tensor(LEARNING_RATE, device=self.device)
            return torch.optim.AdamW(groups, lr=lr, fused=True, capturable=True)
        return torch.optim.AdamW(groups, lr=LEARNING_RATE, fused=True)

    def compute_loss(self, images, labels, kept):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            logits = self.model(images, kept)
        return smoothed_loss(logits, labels)

    def step(self):
        if self.variant.execution in ("reduceoverhead", "maxautotune"):
            torch.compiler.cudagraph_mark_step_begin()
        self.model.zero_grad(set_to_none=True)
        kept = (torch.rand_like(self.keep) < self.keep) / self.keep
        loss = self.loss(*self.batch, kept.to(self.dtype))
        loss.backward()
        with torch.no_grad():
            if self.masters:
                torch._foreach_copy_([m.grad for m in self.masters.values()],
                                     [p.grad for p in self.narrow])
            self.optimizer.step()
            if self.masters:
                torch._foreach_copy_(self.narrow, list(self.masters.values()))
        return loss.detach()

    def captured(self):
        """The step as one CUDA graph: a function that replays it and returns its loss."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            loss = self.step()

        def replay():
            graph.replay()
            return loss

        return replay


def seconds_of_steps(step, steps, on_gpu):
    """Times from the end of each step to the end of the next; nothing waits in between."""
    if not on_gpu:
        ends = [time.perf_counter()]
        for _ in range(steps):
            step()
            ends.append(time.perf_counter())
        return [b - a for a, b in zip(ends, ends[1:])]
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])]


def measure(variant, batch, steps, warmup, tiny=False):
    """Returns the record of one variant. Raises an exception if there is none."""
    on_gpu = not tiny
    if on_gpu and not torch.cuda.is_available():
        raise RuntimeError("PyTorch sees no CUDA device; --list, --smoke and --tiny need none")
    set_up_process(variant, on_gpu)
    begin = time.perf_counter()
    training = Training(variant, TINY if tiny else FULL, batch, "cuda" if on_gpu else "cpu")
    step = training.step
    first_loss = step().item()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()  # leaves out the memory of compilation
    for _ in range(SETTLING_STEPS - 1):
        step().item()
    if variant.graph and on_gpu:
        step = training.captured()
        step().item()
    compile_seconds = time.perf_counter() - begin
    for _ in range(warmup):
        step()
    seconds = statistics.median(seconds_of_steps(step, steps, on_gpu))
    last_loss = step().item()
    print(f"{variant.name}: loss {first_loss:.4f} to {last_loss:.4f}", file=sys.stderr)
    if not (math.isfinite(last_loss) and last_loss < first_loss):
        raise RuntimeError(f"the loss went from {first_loss:.4f} to {last_loss:.4f} in "
                           f"{SETTLING_STEPS + warmup + steps + 1} steps on the same images")
    return {"norm": variant.norm, "variant": variant.name,
            "images_per_second": round(batch / seconds, 1), "step_ms": round(seconds * 1e3, 3),
            "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
            "torch": torch.__version__, "gpu": torch.cuda.get_device_name() if on_gpu else "cpu",
            "batch": batch, "steps": steps, "compile_seconds": round(compile_seconds, 1)}
