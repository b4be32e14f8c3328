// Mixup (Zhang et al., 2017) and CutMix (Yun et al., 2019) of whole batches, as in timm 0.4.9 and
// DeiT: one draw for a batch, in which image b is mixed with image n - 1 - b.
#pragma once

#include "dtn/config/data_config.h"
#include "dtn/data/sample_key.h"

namespace dtn {

struct BatchMix {
  // Weight of an image's own label; its partner's has the rest. 1: the batch is unchanged.
  double share = 1;
  // CutMix: the box takes the partner's pixels. Otherwise every value becomes
  //     share * own + (1 - share) * partner's
  bool cut = false;
  int left = 0, top = 0, width = 0, height = 0;
  bool operator==(const BatchMix&) const = default;
};

// Draws the mix of a batch of images of width x height.
BatchMix sample_mix(int width, int height, const AugmentConfig& augment, const BatchKey& key);

// Returns the box around (x, y) for 1 - share of the image, cut off at its borders, and the share
// that is then left.
BatchMix cut_box(int width, int height, double share, int x, int y);

// Converts two independent uniform numbers, 0 < u, v < 1, to one with the distribution Beta(a, a):
//     t = sqrt(2 a (u^(-1/a) - 1)) cos(2 pi v)
//     (1 + t / sqrt(2 a + t^2)) / 2
// t has Student's distribution of 2 a degrees of freedom (R. W. Bailey, "Polar generation of random
// variates with the t-distribution", Math. Comp. 62, 1994).
double symmetric_beta(double a, double u, double v);

}  // namespace dtn
