// Training config of the task of two_views_task.h in tests.
#pragma once

#include "dtn/models/presets.h"
#include "two_views_task.h"

namespace dtn::test {

inline ExperimentConfig two_views_config() {
  ExperimentConfig c;
  c.model = preset_registry().at("vit_t").model;  // not used by the task, but required
  c.task = "two_views";
  c.seed = 4;
  c.schedule.steps = 20;
  c.optim.lr = 1e-2;
  c.optim.clip_grad_norm = 1;
  c.train.batch_size = 12;
  c.train.micro_batch = 6;
  c.train.ema = 0.9;
  c.data.workers = 2;
  c.train.checkpoint_every = {1, false};
  c.train.eval_every = {10, false};
  return c;
}

}  // namespace dtn::test
