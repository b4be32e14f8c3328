#include "train/task_pictures.h"

#include "train/record/step_pictures.h"

namespace dtn {
namespace {

// Puts the average of the weights in place of the weights while it exists.
class AverageInPlace {
 public:
  explicit AverageInPlace(MovingAverage* average) : average_(average) {
    if (average_) average_->swap();
  }
  ~AverageInPlace() {
    if (average_) average_->swap();
  }
  AverageInPlace(const AverageInPlace&) = delete;
  AverageInPlace& operator=(const AverageInPlace&) = delete;

 private:
  MovingAverage* average_;
};

}  // namespace

Image TaskPictures::drawn() {
  const AverageInPlace average(learner_.average());
  return learner_.task().picture(learner_.compute_dtype());
}

void TaskPictures::draw() {
  const Communicator::Work drawing(ranks_, "drawing a picture", Communicator::Work::kLong);
  try {
    const Image picture = drawn();
    if (!picture.pixels.empty()) recorder_.picture(picture);
  } catch (const std::exception& e) {  // must not stop the training
    if (!failed_) recorder_.warn(cat("cannot draw a picture: ", e.what()));
    failed_ = true;
  }
}

void TaskPictures::draw_missing() {
  if (progress_.step == 0) return;
  std::error_code error;
  const bool missing =
      ranks_.is_root() && !std::filesystem::exists(step_picture_path(run_, progress_.step), error);
  if (!ranks_.any(missing)) return;
  recorder_.pause();
  draw();
  recorder_.resume();
}

}  // namespace dtn
