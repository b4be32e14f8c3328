// Self-supervised and contrastive pre-training: the sections `dino` and `supcon` of a config.
#pragma once

#include <cstdint>
#include <optional>

namespace dtn {

// Self-distillation without labels (Caron et al., "Emerging properties in self-supervised vision
// transformers", ICCV 2021). A student learns the outputs of a teacher, its moving average, for
// other views of the same image.
struct DinoConfig {
  std::int64_t out_dim = 65536;  // outputs of the projection head
  std::int64_t hidden_dim = 2048;
  std::int64_t bottleneck_dim = 256;
  bool norm_last_layer = true;  // the gains of the last layer stay at 1
  // Number of epochs at the start in which the last layer does not change.
  std::int64_t freeze_last_layer_epochs = 1;
  double student_temp = 0.1;
  // The teacher's temperature rises linearly, per epoch, from warmup_teacher_temp to teacher_temp.
  double teacher_temp = 0.04;
  double warmup_teacher_temp = 0.04;
  std::int64_t warmup_teacher_temp_epochs = 0;
  double center_momentum = 0.9;     // of the mean of the teacher's outputs
  double teacher_momentum = 0.996;  // of the teacher's weights; rises to 1
  int local_crops = 8;              // local views per image, besides two global views
  int local_size = 96;              // side of the local views in pixels
  // Areas of the random crops relative to the image.
  double global_scale_min = 0.4, global_scale_max = 1;
  double local_scale_min = 0.05, local_scale_max = 0.4;
  bool operator==(const DinoConfig&) const = default;
};

// Supervised contrastive learning (Khosla et al., NeurIPS 2020): views of images of the same class
// become similar, views of other images dissimilar.
struct SupconConfig {
  double temperature = 0.07;
  // The loss is multiplied by temperature / base_temperature. Unset: equal to the temperature.
  std::optional<double> base_temperature;
  int views = 2;                           // per image
  std::optional<std::int64_t> hidden_dim;  // of the projection head; unset: the model's width
  std::int64_t feat_dim = 128;
  bool operator==(const SupconConfig&) const = default;
};

}  // namespace dtn
