#!/usr/bin/env python3
"""Writes tests/golden/detection/{detector_*,retinanet_*,mask_rcnn_*}.safetensors: small detectors.

The networks of detector_oracle.py run in float64. `--check` instead prints the differences of
float32 from them. Needs PyTorch and torchvision. The tests read only the files.

A batch has B = 2 images, padded to 64 x 96, N anchors and T truths; there are K = 3 classes. Values
are float64 where no type is given. Boxes and values that tests read as inputs are rounded.

detector_weights    bfloat16: backbone.* of all models; retinanet.* and mask_rcnn.*, followed by
                    the name in a checkpoint. A model with LayerNorm has no mean_norm_weight,
                    var_norm_weight and pos_proj.
detector_data       images uint8 [B, 3, 64, 96]: the input is (value - 128) / 64; sizes and padded
                    int64 [B, 2], height and width of each image without and with its own padding
                    truth.boxes float32 [T, 4], truth.labels, truth.image int64 [T], truth.bitmaps
                    uint8 [T, 64, 96]
retinanet_{ln,dtn}, mask_rcnn_dtn
  classes.<l>, boxes.<l>  float32: outputs of dense heads, [B, h w, A K] and [B, h w, 4 A]
  gradients               [parameters, 5], parameters by ascending name, of the sum over levels of
                          classes.<l> values(2000 + 2 l) and boxes.<l> values(2001 + 2 l), see
                          values(): the largest, the projection on values(3000), three elements
  anchors.labels          int64 [B, N]: a class, -1 background, -2 ignored; for proposals the
                          sample, with class 0
  anchors.deltas          float32 [B, N, 4], 0 without a truth
  loss.<name>, loss       [1], with the names of MMDetection; Mask R-CNN's with the samples given
  loss.gradients          of `loss`, as `gradients`
  detections.image        uint8 [1, 3, 64, 64], as images. It has 50 x 61 pixels, 75 x 83 before
                          resizing
  detections.{boxes,scores,labels}  of it: float32 [n, 4] in original pixels, float32, int64 [n]
all of them, ten steps with AdamW on the batch, see detector_training.py; Mask R-CNN's with all
anchors and RoIs
  trained.<loss>          [10], the losses above, each before its step
  trained.rate            [10]
  trained.weight.<parameter>  float32, some weights after the steps
mask_rcnn_dtn
  proposals.<i>.{boxes,scores}  float32, of image i of the batch in training: at most 2000 of a
                          level, 1000 in all; by falling score
  proposals.test.{boxes,scores} float32, of detections.image: at most 1000 of a level
  rois.{boxes,image,truth,labels}  the sampled RoIs: float32 [R, 4], int64 [R]; truth -1 and label
                          K for background
  rois.deltas             [R, 4], 0 for background
  rois.level              int64 [R]
  rois.classes, rois.boxes_out  float32: outputs [R, K + 1], [R, 4 K]
  masks.rows              int64 [P], the RoIs with a truth
  masks.targets           uint8 [P, 784]
  given.{boxes,image}     RoIs of all levels, some larger than the image: float32 [4, 4], int64
  given.{classes,deltas,masks}  float32, outputs for them: [4, K + 1], [4, 4 K], [4, 784, K]
  given.gradients         as `gradients`, of the sum of these with values(2100), (2101), (2102)
  detections.logits       float32 [4, 784, K]: mask logits of the first detections
  detections.bitmaps      uint8 [4, 75, 83]
"""
import math
import pathlib
import sys

import torch

import detection_oracle as do
from detector_batch import CLASSES, SIZE, SIZES, Batch, as_input, dense_targets, make_images, normal
from detector_oracle import Detector, roi_levels
from detector_training import assigned_rois, of_image, retinanet_losses, train

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "peers"))
import safetensors_io  # noqa: E402

FOLDER = HERE / "detection"
TEST_SIZE, TEST_PADDED, ORIGINAL = (50, 61), (64, 64), (75, 83)
# The tables of positions are for images of 96 x 64, whose grids have as many tokens as 64 x 96.
MODEL = dict(size=(96, 64), depths=(1, 1, 2, 1), widths=(8, 16, 20, 32), heads=(2, 4, 5, 8),
             ratios=(2, 2, 2, 2), classes=CLASSES, fpn=16, convs=2, hidden=24)
COTANGENTS, PROJECTION, SAMPLES = 2000, 3000, 3
# Fan-in times the variance of weights whose names contain the word; 2 for others. Outputs are of
# the order of 1.
GAINS = {"lateral": 0.05, "_cls": 0.5, "_reg": 0.1, "conv_logits": 0.5}
RPN_SAMPLE, ROI_SAMPLE, PASTED = (64, 32), (24, 4), 4
GIVEN = ((10.5, 3.25, 41, 60), (-30, -20, 90.5, 110), (-90, -100, 160, 130.25),
         (-250, -200, 300, 310))
MASK_MARGIN = 1e-5
# Least distances from a decision, for inputs that float32 computes and for inputs that it holds.
COMPUTED, EXACT = 1e-5, 2e-6


def values(seed, count):
    """`count` numbers in [-1, 1) with 16 bits, the same in the tests."""
    h = (torch.arange(count) * 2654435761 + seed * 40503) & 0xFFFFFFFF
    h = h ^ (h >> 13)
    h = (h * 0x5BD1E995) & 0xFFFFFFFF
    h = h ^ (h >> 15)
    return (h >> 16).double() / 32768 - 1


def single(tensor):
    """Rounds to float32."""
    return tensor.detach().float().contiguous()


def tokens_last(maps):
    """[R, C, h, w] as [R, h w, C]."""
    return maps.flatten(2).transpose(1, 2).contiguous()


# --- Weights and inputs --------------------------------------------------------------------------

def draw_weight(name, shape, generator):
    draw = normal(generator, *shape)
    if name.endswith("retina_cls.bias"):
        return draw - 3.5
    if name.endswith("fc_cls.bias"):
        return draw * 0.1 + draw.new_tensor([0] * CLASSES + [3])
    if name.endswith("pos_proj.weight"):
        return draw * draw.new_tensor([0.4, 0.4, 0.05]) - draw.new_tensor([0, 0, 0.15])
    if len(shape) == 1:
        return 0.2 * draw + ("norm" in name and name.endswith(".weight") and "_norm_" not in name)
    if "pos_embed" in name:
        return draw
    gain = next((gain for part, gain in GAINS.items() if part in name), 2)
    return draw * math.sqrt(gain / math.prod(shape[1:]))


def make_weights():
    """All tensors of detector_weights."""
    generator = torch.Generator().manual_seed(7)
    tensors = {}
    for kind in ("retinanet", "mask_rcnn"):
        for name, value in Detector(kind, "dtn", **MODEL).state_dict().items():
            key = name if name.startswith("backbone.") else f"{kind}.{name}"
            if key not in tensors:
                tensors[key] = draw_weight(name, value.shape, generator).bfloat16()
    return tensors


def make_model(kind, norm, weights):
    model = Detector(kind, norm, **MODEL).double()
    own = {k: weights[k if k.startswith("backbone.") else f"{kind}.{k}"]
           for k in model.state_dict()}
    model.load_state_dict(own)
    return model


# --- Parts of the files --------------------------------------------------------------------------

def summary(gradient):
    flat = gradient.detach().double().reshape(-1)
    some = flat[[k * len(flat) // SAMPLES for k in range(SAMPLES)]]
    projection = (flat * values(PROJECTION, len(flat))).sum()
    return torch.cat([flat.abs().max()[None], projection[None], some])


def gradients(model, loss):
    """The summaries of all parameters, by ascending name."""
    parameters = [p for _, p in sorted(model.named_parameters())]
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return torch.stack([summary(p * 0 if g is None else g) for p, g in zip(parameters, found)])


def outputs_and_gradients(model, outputs):
    out, total = {}, 0
    for l, (classes, boxes) in enumerate(outputs):
        out[f"classes.{l}"], out[f"boxes.{l}"] = single(classes), single(boxes)
        for k, y in enumerate((classes, boxes)):
            seed = values(COTANGENTS + 2 * l + k, y.numel()).to(y)
            total = total + (y * seed.reshape(y.shape)).sum()
    return out | {"gradients": gradients(model, total)}


def named_losses(losses):
    out = {f"loss.{name}": value.detach()[None] for name, value in losses.items()}
    return out | {"loss": sum(losses.values()).detach()[None]}


def clear_detections(run):
    """Calls run(image, margin) until every decision is clear. Returns its tensors and the image."""
    for seed in range(1000):
        image = make_images(torch.Generator().manual_seed(100 + seed), [TEST_SIZE], TEST_PADDED)
        margin = do.Margin()
        with torch.no_grad():
            out = run(as_input(image), margin)
        if out and min(margin.score, margin.iou) > COMPUTED:
            print(f"  image {seed}: {len(out['detections.labels'])} detections, margins "
                  f"{margin.score:.1e} {margin.iou:.1e}")
            return out | {"detections.image": image}
    sys.exit("no image whose detections are clear")


def detections(found):
    boxes, scores, labels = found
    return {"detections.boxes": single(boxes), "detections.scores": single(scores),
            "detections.labels": labels}


def make_retinanet(norm, weights, batch):
    model = make_model("retinanet", norm, weights)
    targets = dense_targets(batch, do.RETINANET_LEVELS, do.RETINANET_RULE, False)
    images = as_input(batch.images)
    outputs, grids = model.dense(model.levels(images))
    losses = retinanet_losses(model, images, batch)
    out = outputs_and_gradients(model, outputs) | named_losses(losses)
    out |= {"anchors.labels": targets[1], "anchors.deltas": single(targets[2])}
    out["loss.gradients"] = gradients(model, sum(losses.values()))

    def run(image, margin):
        outputs, grids = model.dense(model.levels(image))
        anchors = do.anchors_of(do.RETINANET_LEVELS, grids)
        return detections(do.dense_detections(of_image(outputs, 0), anchors, TEST_SIZE, ORIGINAL,
                                              margin))

    out |= clear_detections(run)
    return out | train(model, images, batch)


# --- Mask R-CNN ----------------------------------------------------------------------------------

def sampled_anchors(batch):
    """labels [B, N], with anchors outside of the sample ignored, and deltas."""
    assigned, labels, deltas = dense_targets(batch, do.RPN_LEVELS, do.RPN_RULE, True)
    generator = torch.Generator().manual_seed(3)
    kept = torch.full_like(labels, do.IGNORED)
    for i in range(len(labels)):
        for rows in do.sample(assigned[i], *RPN_SAMPLE, generator):
            kept[i, rows] = labels[i, rows]
    return kept, deltas


def rounded_outputs(outputs):
    return [(classes.detach().float().double(), boxes.detach().float().double())
            for classes, boxes in outputs]


def training_proposals(outputs, anchors):
    """Boxes and scores of each image, or None if a decision is not clear."""
    margin = do.Margin()
    found = [do.proposals(of_image(outputs, i), anchors, size, 2000, 1000, margin)
             for i, size in enumerate(SIZES)]
    print(f"  proposals {[len(s) for _, s in found]}, margins {margin.score:.1e} {margin.iou:.1e}")
    return found if margin.iou > EXACT and margin.score > EXACT / 10 else None


def sampled_rois(batch, found):
    """The RoIs of the batch."""
    generator, parts = torch.Generator().manual_seed(5), []
    for i, (boxes, _) in enumerate(found):
        rois, *rest = assigned_rois(batch, i, boxes.float().double())
        best = do.ious(rois, batch.truths[i]).max(1).values
        assert (best - 0.5).abs().min() > COMPUTED
        assigned = torch.where(rest[1] >= 0, 0, do.BACKGROUND)
        rows = torch.cat(do.sample(assigned, *ROI_SAMPLE, generator))
        parts.append([part[rows] for part in (rois, *rest)])
    names = ("rois.boxes", "rois.image", "rois.truth", "rois.labels", "rois.deltas")
    return dict(zip(names, (torch.cat(part) for part in zip(*parts))))


def clear_mask_targets(bitmaps, boxes):
    values_ = do.mask_targets(bitmaps, boxes, SIZE)
    assert (values_ - 0.5).abs().min() > MASK_MARGIN, "a mask target is not clear"
    return values_ >= 0.5


def make_mask_rcnn(norm, weights, batch):
    """The tensors of the file, or None if a decision is not clear."""
    model = make_model("mask_rcnn", norm, weights)
    levels = model.levels(as_input(batch.images))
    outputs, grids = model.dense(levels)
    anchors = do.anchors_of(do.RPN_LEVELS, grids)
    found = training_proposals(rounded_outputs(outputs), anchors)
    if not found:
        return None
    out = outputs_and_gradients(model, outputs)
    for i, (boxes, scores) in enumerate(found):
        out |= {f"proposals.{i}.boxes": single(boxes), f"proposals.{i}.scores": single(scores)}
    labels, deltas = sampled_anchors(batch)
    rois = sampled_rois(batch, found)
    image, boxes, roi_labels = rois["rois.image"], rois["rois.boxes"], rois["rois.labels"]
    logits, roi_deltas = model.of_regions(levels, image, boxes)
    rows = (rois["rois.truth"] >= 0).nonzero().flatten()
    masks = model.masks_of(levels, image[rows], boxes[rows])
    targets = clear_mask_targets(torch.cat(batch.bitmaps)[rois["rois.truth"][rows]], boxes[rows])
    losses = do.rpn_losses(*do.joined(outputs, anchors), labels, deltas)
    losses |= do.roi_losses(logits, roi_deltas, roi_labels, rois["rois.deltas"])
    losses["loss_mask"] = do.mask_loss(masks, roi_labels[rows], targets)
    out |= named_losses(losses) | {"loss.gradients": gradients(model, sum(losses.values()))}
    out |= rois | {"anchors.labels": labels, "anchors.deltas": single(deltas),
                   "rois.boxes": single(boxes), "rois.level": roi_levels(boxes),
                   "rois.classes": single(logits), "rois.boxes_out": single(roi_deltas),
                   "masks.rows": rows,
                   "masks.targets": targets.flatten(1).to(torch.uint8)}
    out |= given_regions(model, levels)
    out |= train(make_model("mask_rcnn", norm, weights), as_input(batch.images), batch)
    return out | clear_detections(lambda *args: mask_rcnn_detections(model, *args))


def given_regions(model, levels):
    boxes = torch.tensor(GIVEN, dtype=torch.float64)
    image = torch.tensor([1, 0, 1, 0])
    outputs = (*model.of_regions(levels, image, boxes),
               tokens_last(model.masks_of(levels, image, boxes)))
    assert roi_levels(boxes).tolist() == [0, 1, 2, 3]
    total = sum((y * values(COTANGENTS + 100 + k, y.numel()).reshape(y.shape)).sum()
                for k, y in enumerate(outputs))
    names = ("given.classes", "given.deltas", "given.masks")
    return dict(zip(names, map(single, outputs))) | {
        "given.boxes": single(boxes), "given.image": image,
        "given.gradients": gradients(model, total)}


def mask_rcnn_detections(model, image, margin):
    levels = model.levels(image)
    outputs, grids = model.dense(levels)
    anchors = do.anchors_of(do.RPN_LEVELS, grids)
    rois, scores = do.proposals(of_image(outputs, 0), anchors, TEST_SIZE, 1000, 1000, margin)
    if min(margin.iou, margin.score) < COMPUTED / 10:
        return None
    margin.score = margin.iou = math.inf
    zeros = torch.zeros(len(rois), dtype=torch.long)
    found = do.roi_detections(*model.of_regions(levels, zeros, rois), rois, TEST_SIZE, ORIGINAL,
                              margin)
    boxes, _, labels = found
    resized = boxes * do.scales_of(TEST_SIZE, ORIGINAL)
    logits = model.masks_of(levels, zeros[:PASTED], resized[:PASTED])
    of_class = logits[torch.arange(len(logits)), labels[:PASTED]].sigmoid()
    pasted = do.paste(of_class, boxes[:PASTED], ORIGINAL)
    margin.cut(pasted, 0.5)
    return detections(found) | {
        "proposals.test.boxes": single(rois), "proposals.test.scores": single(scores),
        "detections.logits": single(tokens_last(logits)),
        "detections.bitmaps": (pasted >= 0.5).to(torch.uint8)}


# --- Writing and checking ------------------------------------------------------------------------

def save(name, tensors):
    path = FOLDER / f"{name}.safetensors"
    safetensors_io.save(path, tensors)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def make_all():
    """The tensors of each file."""
    weights = make_weights()
    for seed in range(100):
        batch = Batch(seed)
        mask_rcnn = make_mask_rcnn("dtn", weights, batch)
        if mask_rcnn:
            break
    return {"detector_weights": weights, "detector_data": batch.tensors(),
            "mask_rcnn_dtn": mask_rcnn} | {
                f"retinanet_{norm}": make_retinanet(norm, weights, batch) for norm in ("ln", "dtn")}


def difference(a, b):
    """Largest difference, relative to the largest value of b."""
    return ((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-30)).item()


def check():
    """Runs and trains the detectors in float32, as the tests do."""
    weights, batch = make_weights(), Batch(0)
    batch.images = safetensors_io.load(FOLDER / "detector_data.safetensors")["images"]
    images = as_input(batch.images).float()
    for kind, norm in (("retinanet", "ln"), ("retinanet", "dtn"), ("mask_rcnn", "dtn")):
        want = safetensors_io.load(FOLDER / f"{kind}_{norm}.safetensors")
        model = make_model(kind, norm, weights).float()
        outputs, _ = model.dense(model.levels(images))
        got = outputs_and_gradients(model, outputs) | train(model, images, batch)
        for name, value in got.items():
            print(f"{difference(value, want[name]):.1e} {kind} {norm} {name}")


if __name__ == "__main__":
    torch.set_num_threads(1)  # the tensors are small
    if "--check" in sys.argv[1:]:
        check()
    else:
        for name, tensors in make_all().items():
            save(name, tensors)
