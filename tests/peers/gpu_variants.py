"""The forms of a training step in PyTorch that gpu_speed.py measures, each by its name.

A name consists of words of the table below, at most one of each group, in this order. The lists at
the end start with the form that should be fastest, and then vary one thing at a time. Any other
name that the table allows can be measured too. Needs no PyTorch.
"""
import dataclasses

# Group -> word -> meaning.
WORDS = {
    "source": {
        "module": "DTN by the separable theorem, dtn_separable_torch.py",
        "released": "DTN as the released code has it: a dense T x T matrix P for each head"},
    "product": {
        "kron": "module: P = Py (x) Px multiplied out, then one product over all images",
        "axes": "module: Px along the rows, then Py along the columns",
        "batch": "released: P times all images at once",
        "each": "released: P times each image"},
    "execution": {
        "eager": "one kernel after the other, as Python calls them",
        "compiled": "torch.compile as it comes",
        "tuned": "torch.compile that tries several kernels, for products too (max_autotune)",
        "reduceoverhead": "torch.compile, mode reduce-overhead: CUDA graphs of its own",
        "maxautotune": "torch.compile, mode max-autotune: both, and coordinate descent"},
    "graph": {
        "graph": "the whole step, optimizer included, captured by hand in one CUDA graph"},
    "attention": {
        "cudnn": "scaled_dot_product_attention by cuDNN",
        "flash": "scaled_dot_product_attention by FlashAttention",
        "efficient": "scaled_dot_product_attention by the memory-efficient kernels",
        "flex": "flex_attention, a Triton template, only where compiled"},
    "residual": {
        "bf16res": "all activations in bfloat16, the residual too; float32 inside the norms",
        "fp32res": "float32 parameters under autocast, which keeps the residual in float32"},
    "rows": {
        "lastrow": "the last block works for the class token's row alone, as ours does; exact",
        "allrows": "the last block works for all rows"},
    "patches": {
        "conv": "patches embedded by a convolution of channels-last images, not by a product"},
    "optimizer": {
        "foreach": "AdamW with foreach=True in place of fused=True"},
    "statistics": {
        "tf32": "module: the products behind its statistics in TF32 of float32, not in bfloat16"},
    "partition": {
        "recompute": "compiled: the backward pass computes anew what no kernel need store for it; "
                     "else the float32 mean and deviation of DTN's tokens are kept"},
}
REQUIRED = ("execution", "attention", "residual", "rows")
OF_SOURCE = {"module": ("kron", "axes"), "released": ("batch", "each")}

LISTS = {
    "ln": (
        "compiled-cudnn-bf16res-lastrow",
        "compiled-graph-cudnn-bf16res-lastrow",
        "eager-graph-cudnn-bf16res-lastrow",
        "compiled-flash-bf16res-lastrow",
        "tuned-graph-cudnn-bf16res-lastrow",
        "eager-cudnn-fp32res-allrows-conv",  # as most programs are written
        "reduceoverhead-cudnn-bf16res-lastrow",
        "compiled-cudnn-fp32res-lastrow",
        "compiled-cudnn-bf16res-lastrow-conv",
        "eager-cudnn-bf16res-lastrow",
        "compiled-efficient-bf16res-lastrow",
        "compiled-cudnn-bf16res-allrows",
        "compiled-cudnn-bf16res-lastrow-foreach",
        "compiled-flex-bf16res-lastrow",
        "maxautotune-cudnn-bf16res-lastrow",
    ),
    "dtn": (
        "module-kron-compiled-cudnn-bf16res-lastrow-recompute",
        "released-batch-compiled-cudnn-bf16res-lastrow-recompute",
        "module-kron-compiled-graph-cudnn-bf16res-lastrow-recompute",
        "released-each-eager-cudnn-fp32res-allrows-conv",  # as its authors run it
        "module-axes-compiled-cudnn-bf16res-lastrow-recompute",
        "released-batch-compiled-graph-cudnn-bf16res-lastrow-recompute",
        "module-kron-tuned-graph-cudnn-bf16res-lastrow-recompute",
        "module-kron-compiled-flash-bf16res-lastrow-recompute",
        "module-kron-compiled-cudnn-bf16res-lastrow",
        "released-each-compiled-cudnn-bf16res-lastrow",
        "module-kron-eager-graph-cudnn-bf16res-lastrow",
        "released-batch-eager-graph-cudnn-bf16res-lastrow",
        "released-batch-compiled-cudnn-fp32res-lastrow",
        "module-kron-compiled-cudnn-bf16res-lastrow-tf32-recompute",
        "module-kron-maxautotune-cudnn-bf16res-lastrow-recompute",
    ),
}

Variant = dataclasses.make_dataclass(
    "Variant", ["norm", "name", *((group, str, "") for group in WORDS)], frozen=True)


def parse(norm, name):
    """Returns the variant of that name. Raises ValueError if the name is wrong."""
    words = name.split("-")
    found = {group: word for group, known in WORDS.items() for word in words if word in known}
    unknown = [w for w in words if not any(w in known for known in WORDS.values())]
    missing = [g for g in REQUIRED + (("source", "product") if norm == "dtn" else ())
               if g not in found]
    problem = ""
    if unknown:
        problem = f"no word '{unknown[0]}'"
    elif missing:
        problem = f"it lacks one of {', '.join(WORDS[missing[0]])}"
    elif name != "-".join(found.values()):
        problem = f"the words in order are {'-'.join(found.values())}"
    elif norm == "ln" and {"source", "product", "statistics"} & set(found):
        problem = "LayerNorm has no forms of DTN"
    elif norm == "dtn" and found["product"] not in OF_SOURCE[found["source"]]:
        problem = f"{found['source']} has {' and '.join(OF_SOURCE[found['source']])}"
    elif "statistics" in found and found["source"] != "module":
        problem = "tf32 belongs to module"
    elif "graph" in found and found["execution"] in ("reduceoverhead", "maxautotune"):
        problem = f"{found['execution']} has CUDA graphs of its own"
    elif "partition" in found and found["execution"] == "eager":
        problem = "recompute is for what is compiled"
    elif found["attention"] == "flex" and found["execution"] == "eager":
        problem = "flex is slow unless compiled"
    if problem:
        raise ValueError(f"'{name}' is no variant of {norm}: {problem}; --list and gpu_variants.py "
                         f"have the names")
    return Variant(norm, name, **found)


def variants(norm):
    return [parse(norm, name) for name in LISTS[norm]]
