// Keys of the sections that single tasks read.
#include "config/key_rows.h"

namespace dtn::config {
namespace {

constexpr Range kWidth = between(1, 1 << 24);

std::vector<Key> dino_keys() {
  return {
      value(KEY(dino.out_dim), between(2, 1 << 24),
            "number of outputs of the projection head; use fewer for small data sets"),
      value(KEY(dino.hidden_dim), kWidth, "width of the hidden layers of the projection head"),
      value(KEY(dino.bottleneck_dim), kWidth,
            "width of the normalized vector before the last layer of the projection head"),
      value(KEY(dino.norm_last_layer),
            "the norms of the last layer's rows, which start at 1, are not trained; false trains "
            "them, which can help if the training is stable"),
      value(KEY(dino.freeze_last_layer_epochs), kCount,
            "number of epochs at the start in which the last layer of the projection head does not "
            "change"),
      value(KEY(dino.student_temp), above(0), "temperature of the student's outputs"),
      value(KEY(dino.teacher_temp), above(0),
            "temperature of the teacher's outputs after its warmup; lower is sharper; above 0.07 "
            "the training is unstable"),
      value(KEY(dino.warmup_teacher_temp), above(0),
            "temperature of the teacher's outputs in the first epoch of its warmup"),
      value(KEY(dino.warmup_teacher_temp_epochs), kCount,
            "number of epochs in which the teacher's temperature changes linearly from "
            "warmup_teacher_temp to teacher_temp"),
      value(KEY(dino.center_momentum), between(0, 1),
            "share of the old center that each step keeps; the center, the mean of the teacher's "
            "outputs, is subtracted from these outputs"),
      value(KEY(dino.teacher_momentum), between(0, 1),
            "share of the teacher's weights that the first step keeps; it rises to 1 along half a "
            "cosine; use a larger value for small batches, such as 0.9995 for 256 images"),
      value(KEY(dino.local_crops), between(0, 64),
            "number of small views per image, besides the two large ones; 0: none"),
      value(KEY(dino.local_size), between(1, 1 << 16), "side of the small views in pixels"),
      pair("dino.global_scale", FIELD(dino.global_scale_min), FIELD(dino.global_scale_max),
           positive_fraction(),
           "smallest and largest area of the crops for the two large views, relative to the image"),
      pair("dino.local_scale", FIELD(dino.local_scale_min), FIELD(dino.local_scale_max),
           positive_fraction(),
           "smallest and largest area of the crops for the small views, relative to the image"),
  };
}

std::vector<Key> supcon_keys() {
  return {
      value(KEY(supcon.temperature), above(0), "divisor of the similarities in the loss"),
      value(KEY(supcon.base_temperature), above(0), "0.07",
            "the loss is multiplied by temperature / base_temperature; the public code uses 0.07; "
            "unset: the temperature, so that the factor is 1"),
      value(KEY(supcon.views), between(2, 64), "number of views per image"),
      value(KEY(supcon.hidden_dim), kWidth, "512",
            "width of the hidden layer of the projection head; unset: that of its input"),
      value(KEY(supcon.feat_dim), kWidth, "width of the vectors that are compared"),
  };
}

std::vector<Key> diffusion_keys() {
  return {
      value(KEY(diffusion.steps), between(2, 1 << 20),
            "number of noise levels of the diffusion process"),
      value(KEY(diffusion.beta_start), {.low = 0, .high = 1, .low_open = true, .high_open = true},
            "variance of the noise that the first of 1000 steps adds; other numbers of steps scale "
            "it by 1000 / steps"),
      value(KEY(diffusion.beta_end), {.low = 0, .high = 1, .low_open = true, .high_open = true},
            "the same for the last step; in between, the variance grows linearly"),
      value(
          KEY(diffusion.clip),
          "limits predicted images to [-1, 1] while sampling; use it for pixels, not for latents"),
      value(KEY(diffusion.sample_every), "5epoch",
            "period at which a picture of samples is written to samples/ in the run folder; unset: "
            "with each evaluation, or with each checkpoint if there are no evaluations; 0: never; "
            "needs 1 or 3 channels"),
      value(KEY(diffusion.sample_steps), between(1, 1 << 20),
            "number of DDIM steps of these samples; or the largest smaller number that DDIM can "
            "take"),
      value(KEY(diffusion.sample_guidance), between(0, 100),
            "guidance scale of these samples; 1: no guidance"),
      value(KEY(diffusion.sample_count), between(1, 1024),
            "number of these samples; they go through the classes in turn"),
  };
}

std::vector<Key> translate_keys() {
  return {
      value(KEY(translate.l1), at_least(0),
            "weight of the mean of |d| in the loss, where d is the difference between output and "
            "target"),
      value(KEY(translate.l2), at_least(0), "weight of the mean of d^2"),
      value(KEY(translate.charbonnier), at_least(0),
            "weight of the mean of sqrt(d^2 + charbonnier_eps^2)"),
      value(KEY(translate.charbonnier_eps), above(0),
            "difference below which this term is nearly quadratic"),
  };
}

}  // namespace

std::vector<Key> task_keys() {
  std::vector<Key> keys;
  for (auto part : {dino_keys, supcon_keys, diffusion_keys, translate_keys}) {
    for (Key& key : part()) {
      key.of_task = true;
      keys.push_back(std::move(key));
    }
  }
  return keys;
}

}  // namespace dtn::config
