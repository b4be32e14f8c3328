#include "train/record/attempts_file.h"

#include <gtest/gtest.h>

#include "temp_folder.h"

namespace dtn {
namespace {

using test::TempFolder;

Attempt attempt_from(std::int64_t step) {
  Attempt attempt;
  attempt.from_step = step;
  return attempt;
}

// Writes the files of one attempt (one process of a run) to the folder.
void run_attempt(const std::filesystem::path& folder, std::int64_t from, std::int64_t to,
                 TrainingTime training) {
  AttemptsFile attempts(folder, from > 0, attempt_from(from));
  attempts.save(to, training);
}

// A run killed after its last step but before its summary has a last attempt without steps. The
// rate is that of the attempts with training.
TEST(AttemptsFile, RateIncludesAllAttempts) {
  TempFolder folder;
  run_attempt(folder.path(), 0, 10, {.seconds = 2, .samples = 100});
  run_attempt(folder.path(), 10, 30, {.seconds = 6, .samples = 220});
  AttemptsFile last(folder.path(), true, attempt_from(30));
  last.save(30, {});
  EXPECT_EQ(last.count(), 3u);
  EXPECT_EQ(last.training().samples, 320);
  EXPECT_DOUBLE_EQ(last.training().samples_per_second(), 40);
}

TEST(AttemptsFile, RateIsZeroWithoutTraining) { EXPECT_EQ(TrainingTime{}.samples_per_second(), 0); }

// Version 0.1 wrote legs.json, at first without the part that was training.
TEST(AttemptsFile, ReadsFilesOfVersion01) {
  TempFolder folder;
  folder.write("legs.json",
               R"({"legs": [{"started": "2026-11-23T07:11:24Z", "from_step": 0, "to_step": 5,)"
               R"( "seconds": 7, "device": "cpu", "version": "0.1.0", "commit": ""}]})");
  AttemptsFile attempts(folder.path(), true, attempt_from(5));
  EXPECT_EQ(attempts.count(), 2u);
  EXPECT_GE(attempts.seconds(), 7);
  EXPECT_EQ(attempts.training().samples, 0);
}

}  // namespace
}  // namespace dtn
