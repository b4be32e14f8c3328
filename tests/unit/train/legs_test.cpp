#include "train/legs.h"

#include <gtest/gtest.h>

#include <fstream>

#include "unit/data/data_fixtures.h"

namespace dtn {
namespace {

using test::TempDir;

Leg leg_from(std::int64_t step) {
  Leg leg;
  leg.from_step = step;
  return leg;
}

// Writes the files of one leg (one process of a run) to the folder.
void run_leg(const std::filesystem::path& folder, std::int64_t from, std::int64_t to,
             TrainingTime training) {
  Legs legs(folder, from > 0, leg_from(from));
  legs.save(to, training);
}

// A run killed after its last step but before its summary has a last leg without steps. The rate is
// that of the legs with training.
TEST(Legs, RateIsThatOfAllLegs) {
  TempDir folder;
  run_leg(folder.path(), 0, 10, {.seconds = 2, .samples = 100});
  run_leg(folder.path(), 10, 30, {.seconds = 6, .samples = 220});
  Legs last(folder.path(), true, leg_from(30));
  last.save(30, {});
  EXPECT_EQ(last.count(), 3u);
  EXPECT_EQ(last.training().samples, 320);
  EXPECT_DOUBLE_EQ(last.training().samples_per_second(), 40);
}

TEST(Legs, WithoutTrainingHaveNoRate) { EXPECT_EQ(TrainingTime{}.samples_per_second(), 0); }

TEST(Legs, OfTheFirstVersionCountWithoutTheirTraining) {
  TempDir folder;
  std::ofstream(folder.path() / "legs.json")
      << R"({"legs": [{"started": "2026-11-23T07:11:24Z", "from_step": 0, "to_step": 5,)"
         R"( "seconds": 7, "device": "cpu", "version": "0.1.0", "commit": ""}]})";
  Legs legs(folder.path(), true, leg_from(5));
  EXPECT_EQ(legs.count(), 2u);
  EXPECT_GE(legs.seconds(), 7);
  EXPECT_EQ(legs.training().samples, 0);
}

}  // namespace
}  // namespace dtn
