#!/usr/bin/env python3
"""Writes tests/golden/self_supervised: results of DINO, supervised contrastive learning, k-NN and a
linear probe in float64. Needs PyTorch. The tests read only the files.

  dino_views.safetensors            global [12, 2, 3, 16, 16], local [12, 3, 3, 8, 8]: given views
  dino_<case>.yaml                  the config of dtn-train, without the paths of the two files
  dino_<case>_init.safetensors      initial weights of student and teacher: backbone.* and head.*
  dino_<case>_expected.safetensors  student.* and teacher.* after the last step, center [1, K];
                                    of each of the 12 steps: loss, loss_global, loss_local,
                                    teacher_entropy, lr, weight_decay, teacher_momentum,
                                    teacher_temp [12], and centers [12, K] after the step
  supcon_loss.safetensors           <case>.{z,labels,loss,dz,temperature,base_temperature}
  supcon_{views,init,expected}.safetensors, supcon.yaml
                                    four steps of SGD; expected: loss [4], backbone.*, head.*
  features.safetensors              images<side>, and from the initial weights of a case of DINO
                                    <case>.<side>.{pooled,blocks1,blocks2,blocks3,interleaved}
  knn.safetensors                   train_features, train_labels, features, labels, and for each k
                                    k<k>.{predicted,top1,top5}; percent. Classes without votes
                                    rank last, the lower one first
  linear.safetensors                the same inputs, linear.{weight,bias} at the start and expected
                                    .linear.{weight,bias}; epochs, batch, lr, top1, top5, loss

Batch b of an epoch is rows 4 b .. 4 b + 3. The keys' third of qkv.bias has no gradient but
rounding, which AdamW enlarges; tests in float32 leave it out.

  make_self_supervised_goldens.py           writes the files
  make_self_supervised_goldens.py --check   compares gradients with finite differences and prints
                                            how far the same steps in float32 end
"""
import copy
import math
import pathlib
import sys

import torch

from self_supervised_torch import (AnySizeViT, ContrastiveHead, Dino, DinoHead, Network,
                                   cosine, resample_matrix, supcon_loss)

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import safetensors_io  # noqa: E402
from vit_torch import decay_groups  # noqa: E402

FOLDER = HERE / "self_supervised"
ROWS, BATCH, EPOCHS, LOCAL_VIEWS = 12, 4, 4, 3
SIDE, LOCAL_SIDE = 16, 8
WIDTH, HEADS, DEPTH, PATCH, MLP_RATIO = 16, 4, 3, 4, 2

COMMON = dict(out_dim=32, hidden_dim=24, bottleneck_dim=8, student_temp=0.1, center_momentum=0.9,
              teacher_momentum=0.9, epochs=EPOCHS, steps_per_epoch=ROWS // BATCH, warmup_epochs=1,
              lr=1e-2, min_lr=1e-6, weight_decay=0.04, weight_decay_end=0.4)
# name: (style of the vision transformer, options)
CASES = {
    "frozen": ("deit", dict(norm_last_layer=True, freeze_last_layer_epochs=1, clip_param_norm=0.8,
                            warmup_teacher_temp=0.04, teacher_temp=0.07,
                            warmup_teacher_temp_epochs=2)),
    "trained": ("deit", dict(norm_last_layer=False, freeze_last_layer_epochs=2, clip_param_norm=0.2,
                             warmup_teacher_temp=0.04, teacher_temp=0.06,
                             warmup_teacher_temp_epochs=3)),
    "late_token": ("paper", dict(norm_last_layer=False, freeze_last_layer_epochs=0,
                                 clip_param_norm=0.5, warmup_teacher_temp=0.04, teacher_temp=0.04,
                                 warmup_teacher_temp_epochs=0)),
}
MODELS = {
    "deit": "  preset: deit_tiny\n",
    "paper": "  preset: vit_t\n  class_token_at: 2\n  norm: dtn\n",
}


def rounded(tensor):
    """Rounds to values that float32 holds."""
    return tensor.float().double()


def normal(generator, *shape):
    return rounded(torch.randn(*shape, generator=generator, dtype=torch.float64))


def make_backbone(style):
    options = dict(flavour=style, cls_at=2, norm="dtn" if style == "paper" else "ln")
    return AnySizeViT(WIDTH, HEADS, DEPTH, SIDE, PATCH, MLP_RATIO, **options).double()


def fill(network, seed, gains=0.0):
    """Sets weights far from the initial ones; `gains`: spread of the last layer's gains."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in network.named_parameters():
            draw = normal(generator, *p.shape)
            if name.endswith("weight_g"):
                value = 1 + gains * draw
            elif "norm" in name and name.endswith(".weight"):
                value = 1 + 0.2 * draw
            elif p.ndim == 1:
                value = 0.2 * draw
            elif name.endswith(("pos_embed", "cls_token", "weight_v", "pos_proj.weight")):
                value = 0.5 * draw
            else:
                value = draw / math.sqrt(p[0].numel())
            p.copy_(rounded(value))
    return network


def save(name, tensors):
    """Saves floating-point tensors as float32, except scalars, which a config may hold exactly."""
    safetensors_io.save(FOLDER / f"{name}.safetensors",
                        {k: v.float() if v.is_floating_point() and v.ndim > 0 else v
                         for k, v in tensors.items()})


def prefixed(prefix, network):
    return {f"{prefix}{k}": v.detach() for k, v in network.state_dict().items()}


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_config(name, task, style, sections):
    """Writes a config that dtn-train runs once data.train and model.init_weights are set."""
    lines = [f"name: {name}\ntask: {task}\nmodel:\n{MODELS[style]}",
             f"  image_size: {SIDE}\n  patch_size: {PATCH}\n  embed_dim: {WIDTH}\n",
             f"  depth: {DEPTH}\n  num_heads: {HEADS}\n  mlp_ratio: {MLP_RATIO}\n  drop_path: 0\n",
             f"data:\n  dataset: tensors\n  shuffle: false\n"]
    for section, values in sections.items():
        lines.append(f"{section}:\n")
        lines += [f"  {key}: {text_of(value)}\n" for key, value in values.items()]
    (FOLDER / f"{name}.yaml").write_text("".join(lines))


# DINO.


def make_views():
    generator = torch.Generator().manual_seed(1)
    images = normal(generator, ROWS, 1, 3, 1, 1)  # views of one image have something in common
    crops = normal(generator, ROWS, 2, 3, SIDE, SIDE) + images
    small = normal(generator, ROWS, LOCAL_VIEWS, 3, LOCAL_SIDE, LOCAL_SIDE) + images
    return rounded(crops), rounded(small)


def make_dino(name):
    style, options = CASES[name]
    options = {**COMMON, **options}
    head = DinoHead(WIDTH, options["hidden_dim"], options["bottleneck_dim"], options["out_dim"])
    gains = 0.0 if options["norm_last_layer"] else 0.2
    network = fill(Network(make_backbone(style), head.double()), 10 + len(name), gains)
    return Dino(network, options)


def run(dino, views, steps=None):
    """The logged values of each step, as tensors."""
    records, centers = [], []
    for i in range(steps or EPOCHS * ROWS // BATCH):
        rows = slice(i * BATCH % ROWS, i * BATCH % ROWS + BATCH)
        records.append(dino.step(*(v[rows] for v in views)))
        centers.append(dino.center[0])
    logged = {key: torch.tensor([r[key] for r in records], dtype=torch.float64)
              for key in records[0]}
    return {**logged, "centers": torch.stack(centers)}


def write_dino_config(name):
    style, options = CASES[name]
    options = {**COMMON, **options}
    dino_keys = ("out_dim", "hidden_dim", "bottleneck_dim", "norm_last_layer",
                 "freeze_last_layer_epochs", "student_temp", "teacher_temp", "warmup_teacher_temp",
                 "warmup_teacher_temp_epochs", "center_momentum", "teacher_momentum")
    sections = {
        "dino": {**{k: options[k] for k in dino_keys}, "local_crops": LOCAL_VIEWS,
                 "local_size": LOCAL_SIDE},
        "optim": {"name": "adamw", "lr": f"{options['lr']:f}",
                  **{k: options[k] for k in ("weight_decay", "weight_decay_end",
                                             "clip_param_norm")}},
        "schedule": {"name": "dino", "epochs": EPOCHS, "warmup_epochs": options["warmup_epochs"],
                     "warmup_lr": 0, "min_lr": f"{options['min_lr']:f}"},
        "train": {"batch_size": BATCH, "log_every": 1},
    }
    write_config(f"dino_{name}", "dino", style, sections)


def write_dino():
    views = make_views()
    save("dino_views", dict(zip(("global", "local"), views)))
    for name in CASES:
        dino = make_dino(name)
        save(f"dino_{name}_init", prefixed("", dino.student))
        logged = run(dino, views)
        clipped = logged.pop("clipped")
        some = (clipped > 0) & (clipped < len(dino.trained))
        assert some.sum() > 5, clipped  # the clip acts on some tensors and not on others
        save(f"dino_{name}_expected", {**logged, "center": dino.center,
                                       **prefixed("student.", dino.student),
                                       **prefixed("teacher.", dino.teacher)})
        write_dino_config(name)


# Supervised contrastive learning.

SUPCON = dict(temperature=0.1, base_temperature=0.07, views=2, hidden_dim=WIDTH, feat_dim=8)
SUPCON_STEPS, SUPCON_LR, SUPCON_DECAY, SUPCON_MOMENTUM = 4, 0.05, 0.01, 0.9
SUPCON_LABELS = (0, 1, 0, 2, 1, 1, 0, 3)


def supcon_cases():
    """name: (labels of the samples, views, temperature, base temperature)"""
    yield "classes", ((0, 1, 0, 2, 1, 0), 2, 0.07, 0.07)
    yield "singletons", ((0, 1, 2, 1, 3, 4, 1, 5, 6), 1, 0.1, 0.1)
    yield "no_positives", ((0, 1, 2, 3, 4), 1, 0.1, 0.1)
    yield "one_class", ((5, 5, 5, 5), 3, 0.1, 0.07)
    yield "three_views", ((0, 0, 1, 2, 1), 3, 0.07, 0.07)
    yield "no_labels", ((0, 1, 2, 3, 4, 5, 6), 2, 0.1, 0.07)  # each sample is its own class: SimCLR
    yield "no_labels_three_views", ((0, 1, 2, 3), 3, 0.1, 0.1)


def write_supcon_loss():
    out = {}
    for seed, (name, (labels, views, temperature, base)) in enumerate(supcon_cases()):
        generator = torch.Generator().manual_seed(100 + seed)
        rows = torch.tensor(labels).repeat_interleave(views)
        z = normal(generator, len(rows), 12)
        z = rounded(z / z.norm(dim=1, keepdim=True)).requires_grad_()
        loss = supcon_loss(z, rows, temperature, base)
        dz = torch.zeros_like(z)
        if torch.is_tensor(loss):
            dz, = torch.autograd.grad(loss, z)
        out |= {f"{name}.z": z.detach(), f"{name}.labels": rows, f"{name}.dz": dz}
        scalars = {"loss": loss, "temperature": temperature, "base_temperature": base}
        for key, value in scalars.items():
            out[f"{name}.{key}"] = torch.as_tensor(value, dtype=torch.float64).detach()
    save("supcon_loss", out)


def supcon_steps(network, views, labels):
    optimizer = torch.optim.SGD(decay_groups(network, SUPCON_DECAY), lr=SUPCON_LR,
                                momentum=SUPCON_MOMENTUM)
    losses = []
    for i in range(SUPCON_STEPS):
        rows = slice(i * BATCH % len(labels), i * BATCH % len(labels) + BATCH)
        loss = supcon_loss(network(views[rows]).flatten(0, 1),
                           labels[rows].repeat_interleave(views.shape[1]),
                           SUPCON["temperature"], SUPCON["base_temperature"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def make_supcon():
    head = ContrastiveHead(WIDTH, SUPCON["hidden_dim"], SUPCON["feat_dim"])
    network = fill(Network(make_backbone("paper"), head.double()), 200)
    generator = torch.Generator().manual_seed(201)
    labels = torch.tensor(SUPCON_LABELS)
    return network, normal(generator, len(labels), SUPCON["views"], 3, SIDE, SIDE), labels


def write_supcon():
    network, views, labels = make_supcon()
    save("supcon_views", {"views": views, "labels": labels})
    save("supcon_init", prefixed("", network))
    losses = supcon_steps(network, views, labels)
    save("supcon_expected", {"loss": losses, **prefixed("", network)})
    write_config("supcon", "supcon", "paper", {
        "supcon": SUPCON,
        "optim": {"name": "sgd", "lr": SUPCON_LR, "momentum": SUPCON_MOMENTUM,
                  "weight_decay": SUPCON_DECAY},
        "schedule": {"name": "constant", "steps": SUPCON_STEPS},
        "train": {"batch_size": BATCH, "log_every": 1}})


# Evaluation of frozen features.


def write_features():
    generator = torch.Generator().manual_seed(300)
    images = {side: normal(generator, 3, 3, side, side) for side in (SIDE, 24)}
    out = {f"images{side}": value for side, value in images.items()}
    for name in ("frozen", "late_token"):
        backbone = make_dino(name).teacher.backbone
        for side, value in images.items():
            with torch.no_grad():
                out[f"{name}.{side}.pooled"] = backbone(value)
                out[f"{name}.{side}.interleaved"] = backbone.interleaved_with_mean(value)
                for count in range(1, DEPTH + 1):
                    out[f"{name}.{side}.blocks{count}"] = backbone.last_blocks(value, count)
    save("features", out)


CLASSES, FEATURES, BANK, QUERIES = 7, 16, 200, 50


def make_features(seed, spread):
    """Clusters of points, one a class, and the labels."""
    generator = torch.Generator().manual_seed(seed)
    middles = normal(generator, CLASSES, FEATURES)
    out = {}
    for split, count in (("train_", BANK), ("", QUERIES)):
        labels = torch.randint(CLASSES, (count,), generator=generator)
        out[split + "features"] = rounded(
            middles[labels] + spread * normal(generator, count, FEATURES))
        out[split + "labels"] = labels
    return out


def ranking(votes):
    """Classes by falling votes; with equal votes, the lower class comes first."""
    return sorted(range(len(votes)), key=lambda k: (-votes[k], k))


def knn(data, k, temperature=0.07):
    """Returns the ranked classes of each query, and the smallest gap that decides: between the
    similarities of neighbours k and k + 1, or between the votes of two classes that have some."""
    bank, queries = (f / f.norm(dim=1, keepdim=True)
                     for f in (data["train_features"], data["features"]))
    ranked, gap = [], math.inf
    for row in queries @ bank.T:
        order = sorted(range(BANK), key=lambda i: (-row[i].item(), i))
        if k < BANK:
            gap = min(gap, (row[order[k - 1]] - row[order[k]]).item())
        votes = [0.0] * CLASSES
        for i in order[:k]:
            votes[data["train_labels"][i]] += math.exp(row[i].item() / temperature)
        ranked.append(ranking(votes))
        cast = sorted(v for v in votes if v > 0)
        gap = min([gap, *((b - a) / b for a, b in zip(cast, cast[1:]))])
    return ranked, gap


def accuracy(ranked, labels, first):
    hits = sum(label in row[:first] for row, label in zip(ranked, labels.tolist()))
    return torch.tensor(100.0 * hits / len(ranked), dtype=torch.float64)


def write_knn():
    data = make_features(400, 1.5)
    out = dict(data)
    for k in (1, 10, 20, BANK):
        ranked, gap = knn(data, k)
        assert gap > 5e-6, (k, gap)  # so that float32 decides the same
        out |= {f"k{k}.predicted": torch.tensor([row[0] for row in ranked]),
                f"k{k}.top1": accuracy(ranked, data["labels"], 1),
                f"k{k}.top5": accuracy(ranked, data["labels"], 5)}
    save("knn", out)


PROBE_EPOCHS, PROBE_BATCH, PROBE_LR = 5, 64, 0.4  # the last batch has 8 rows


def write_linear():
    """The rate of the first epoch is PROBE_LR: the program's `--lr` times batch / 256."""
    data = make_features(500, 1.5)
    generator = torch.Generator().manual_seed(501)
    weight = rounded(0.01 * normal(generator, CLASSES, FEATURES)).requires_grad_()
    bias = torch.zeros(CLASSES, dtype=torch.float64, requires_grad=True)
    out = {**data, "linear.weight": weight.detach().clone(), "linear.bias": bias.detach().clone()}
    optimizer = torch.optim.SGD([weight, bias], lr=PROBE_LR, momentum=0.9)

    def loss_on(features, labels):
        return torch.nn.functional.cross_entropy(features @ weight.T + bias, labels)

    for epoch in range(PROBE_EPOCHS):
        optimizer.param_groups[0]["lr"] = cosine(PROBE_LR, 0.0, epoch, PROBE_EPOCHS)
        for rows in torch.arange(BANK).split(PROBE_BATCH):
            optimizer.zero_grad()
            loss_on(data["train_features"][rows], data["train_labels"][rows]).backward()
            optimizer.step()
    with torch.no_grad():
        ranked = [ranking(row) for row in (data["features"] @ weight.T + bias).tolist()]
        loss = loss_on(data["features"], data["labels"])
    save("linear", {**out, "expected.linear.weight": weight.detach(),
                    "expected.linear.bias": bias.detach(), "loss": loss,
                    "lr": torch.tensor(PROBE_LR, dtype=torch.float64),
                    "epochs": torch.tensor(PROBE_EPOCHS), "batch": torch.tensor(PROBE_BATCH),
                    "top1": accuracy(ranked, data["labels"], 1),
                    "top5": accuracy(ranked, data["labels"], 5)})


# Checks of this script.


def check_matrix():
    """Compares with PyTorch's own interpolation, called as in the public code of DINO."""
    for size, new_size in ((14, 6), (4, 2), (4, 6), (14, 20)):
        whole = torch.eye(size, dtype=torch.float64)[None, :, None]  # each unit vector a channel
        whole = whole.expand(-1, -1, size, -1).contiguous()
        factor = (new_size + 0.1) / size
        theirs = torch.nn.functional.interpolate(whole, scale_factor=(factor, factor),
                                                 mode="bicubic")[0, :, 0].T
        worst = (resample_matrix(size, new_size) - theirs).abs().max().item()
        print(f"positions {size} -> {new_size}: within {worst:.1e} of PyTorch's interpolation")
        assert worst < 1e-12


def check_gradients(name):
    """Compares with central differences at a few entries of each tensor, after four steps."""
    dino, views = make_dino(name), make_views()
    run(dino, views, 4)
    batch = [v[:BATCH] for v in views]

    def loss():
        return dino.losses(*batch)[0]["loss"]

    gradients = dict(zip(dino.trained, torch.autograd.grad(loss(), dino.trained.values())))
    worst, step = 0.0, 1e-5
    for tensor, p in dino.trained.items():
        flat, scale = p.detach().view(-1), max(1e-3, gradients[tensor].abs().max().item())
        for at in range(0, len(flat), max(1, len(flat) // 3)):
            kept, values = flat[at].item(), []
            for sign in (1, -1):
                flat[at] = kept + sign * step
                values.append(loss().item())
            flat[at] = kept
            difference = (values[0] - values[1]) / (2 * step)
            worst = max(worst, abs(difference - gradients[tensor].view(-1)[at].item()) / scale)
    print(f"dino {name}: gradients within {worst:.1e} of finite differences")
    assert worst < 1e-6


def drift(name):
    """Prints the distance of float32 from float64 at the end, and how far the tensors moved,
    relative to the largest value of a tensor. Leaves out the biases of keys."""
    views, wide, narrow = make_views(), make_dino(name), make_dino(name)
    start = copy.deepcopy(wide.student)
    run(wide, views)
    for network in (narrow.student, narrow.teacher):
        network.float()
    narrow.center = narrow.center.float()
    run(narrow, [v.float() for v in views])
    worst, least = (0.0, ""), (math.inf, "")
    for networks in ((wide.student, narrow.student, start), (wide.teacher, narrow.teacher, start)):
        for (tensor, a), b, c in zip(*(networks[0].named_parameters(), networks[1].parameters(),
                                       networks[2].parameters())):
            kept = torch.ones(a.shape, dtype=torch.bool)
            if tensor.endswith("qkv.bias"):
                kept[WIDTH:2 * WIDTH] = False
            if tensor.endswith("pos_proj.bias"):  # without effect
                continue
            scale = a.abs().max().item() or 1.0
            worst = max(worst, ((a - b)[kept].abs().max().item() / scale, tensor))
            least = min(least, ((a - c)[kept].abs().max().item() / scale, tensor))
    print(f"dino {name}: float32 ends {worst[0]:.1e} away ({worst[1]}); the least that a tensor "
          f"moved is {least[0]:.1e} ({least[1]})")


def check():
    check_matrix()
    for name in CASES:
        check_gradients(name)
        drift(name)


def main():
    if sys.argv[1:] == ["--check"]:
        check()
        return
    FOLDER.mkdir(exist_ok=True)
    write_dino()
    write_supcon_loss()
    write_supcon()
    write_features()
    write_knn()
    write_linear()


if __name__ == "__main__":
    main()
