#include "apps/predict/predict_objects.h"

#include "data/feed/open_split.h"
#include "tasks/detect/inference.h"

namespace dtn::app {
namespace {

// Returns the objects in row `row` of the outputs of the task that have at least this score.
std::vector<PredictedObject> predicted_in(const Fields& outputs, std::int64_t row,
                                          const PixelSize& image, double least) {
  std::vector<PredictedObject> predicted;
  for (const Detection& object : objects_in(outputs, row)) {
    if (object.score < least) break;  // the scores fall
    const auto position = static_cast<std::int64_t>(predicted.size());
    const Box& b = object.box;
    PredictedObject& to = predicted.emplace_back();
    to.label = object.label;
    to.score = object.score;
    to.box = {b.x1, b.y1, b.x2, b.y2};
    if (outputs.has("masks")) to.mask = mask_in(outputs, row, position, image);
  }
  return predicted;
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
      writer.add(index, predicted_in(outputs, i, {size[0], size[1]}, p.format.score));
    }
    count.done += batch.n;
  }
  write_faults(source->size());
  return count;
}

}  // namespace dtn::app
