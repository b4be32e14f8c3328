#include "apps/predict/predict_objects.h"

#include "data/feed/open_split.h"
#include "tasks/detect/paste_mask.h"

namespace dtn::app {
namespace {

// Returns the objects in row `row` of the outputs of the task.
std::vector<PredictedObject> objects_in(const Fields& outputs, std::int64_t row,
                                        std::int64_t height, std::int64_t width, double least) {
  const std::int64_t count = outputs.at("count").data<std::int64_t>()[row];
  const std::int64_t first = row * outputs.at("boxes").dim(1);
  const Tensor* masks = outputs.find("masks");
  std::vector<PredictedObject> objects;
  for (std::int64_t at = first; at < first + count; ++at) {
    PredictedObject object;
    object.score = outputs.at("scores").data<float>()[at];
    if (object.score < least) break;  // the scores fall
    object.label = outputs.at("labels").data<std::int64_t>()[at];
    const float* box = outputs.at("boxes").data<float>() + 4 * at;
    object.box = {box[0], box[1], box[2], box[3]};
    if (masks) {
      const auto cells = static_cast<std::size_t>(masks->dim(2));
      const auto logits =
          masks->values<float>().subspan(static_cast<std::size_t>(at) * cells, cells);
      object.mask = paste_mask(logits, {box[0], box[1], box[2], box[3]}, height, width);
    }
    objects.push_back(std::move(object));
  }
  return objects;
}

}  // namespace

PictureCount predict_objects(const ObjectPrediction& p) {
  DetectionWriter writer(p.format, p.pictures, p.names);
  const auto source =
      std::make_shared<const FaultKeepingSource>(p.task.samples_of(open_pictures(p.pictures)));
  const auto split =
      open_split(source, p.config, Split::kVal, {.device = p.device, .batch_size = p.batch_size});
  if (p.compute == DType::kBFloat16) p.task.detector().parameters().enable_bfloat16();
  PictureCount count;
  const auto write_faults = [&](std::int64_t end) {
    for (; const auto fault = source->take_fault(end); ++count.damaged) {
      writer.add_fault(fault->first, fault->second);
    }
  };
  BatchFeeder& feeder = split->feeder();
  feeder.start(0);
  for (DeviceBatch batch; feeder.next(batch);) {
    Context ctx;
    ctx.mode.compute = p.compute;
    const Fields outputs = p.task.outputs(ctx, batch.fields);
    const Tensor& sizes = batch.host.at("original");
    for (std::int64_t i = 0; i < batch.n; ++i) {
      const std::int64_t index = batch.indices[static_cast<std::size_t>(i)];
      write_faults(index);
      const std::int64_t* size = sizes.data<std::int64_t>() + 2 * i;
      writer.add(index, objects_in(outputs, i, size[0], size[1], p.format.score));
    }
    count.done += batch.n;
  }
  write_faults(source->size());
  return count;
}

}  // namespace dtn::app
