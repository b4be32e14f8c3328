// Feeds a source of arbitrary fields to the device: the same bits as on the CPU.
#include "cuda/twin.h"
#include "unit/data/two_views.h"

namespace dtn {
namespace {

using namespace dtn::test;

TEST(CustomFieldsOnDevice, Train) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_views_in_training(kCuda);
}

TEST(CustomFieldsOnDevice, Evaluate) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_views_in_evaluation(kCuda);
}

}  // namespace
}  // namespace dtn
