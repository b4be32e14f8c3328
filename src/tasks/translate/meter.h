// Results of an evaluation of the task translate.
#pragma once

#include "dtn/config/translate_config.h"
#include "dtn/core/metrics.h"
#include "tasks/sample_figures.h"
#include "tasks/translate/quality.h"

namespace dtn {

// Means over the samples, in float64: `psnr` and `ssim` (quality.h) and `l1`, the absolute
// difference, of outputs clamped to [0, 1]; `loss` of the outputs as they are; `input_psnr` and
// `input_ssim` of the inputs. Those of the inputs are NaN if inputs and targets have different
// channels, and both SSIMs are NaN if a side has fewer than 11 pixels. `iou` is the intersection
// over union of output and target, each at 0.5, over the samples whose target is not empty; NaN
// unless all targets consist of 0 and 1, and some of them are not empty.
//
// Reads "output" [n, Co, H, W] of the outputs and "input", "target" and "index" of the batch.
class TranslateMeter final : public Meter {
 public:
  explicit TranslateMeter(const TranslateConfig& weights) : weights_(weights) {}

  void add(const Fields& batch, const Fields& outputs) override;
  void merge(Communicator& ranks) override { samples_.merge(ranks); }
  Metrics result() const override;

 private:
  TranslateConfig weights_;
  SampleFigures samples_{8};
};

}  // namespace dtn
