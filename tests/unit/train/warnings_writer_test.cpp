// Problems that a task sees in a run, and their file.
#include "train/record/warnings_writer.h"

#include <gtest/gtest.h>

#include "temp_folder.h"
#include "two_views_config.h"

namespace dtn::test {
namespace {

// Has a problem called `name` if its only term is above 1.
class WarningTask : public TwoViewsTask {
 public:
  explicit WarningTask(const ExperimentConfig& config)
      : TwoViewsTask({config, kCpu, standard_registries()}) {}
  std::optional<TaskWarning> warning(const std::vector<Named<double>>& means, std::int64_t step,
                                     const RunLength& run) const override {
    EXPECT_EQ(means.size(), 1u);
    EXPECT_EQ(means[0].name, "figure");
    seen.push_back(means[0].value);
    if (!(means[0].value > 1)) return std::nullopt;  // not for NaN
    return TaskWarning{name, cat(step, " of ", run.steps, " steps")};
  }

  std::string name = "high";
  mutable std::vector<double> seen;
};

class Warnings : public ::testing::Test {
 protected:
  Warnings() : task_(config_) {}

  static void add(WarningsWriter& writer, double value, bool finite = true) {
    StepReport report;
    report.terms = {{"figure", value}};
    report.finite = finite;
    writer.add(report);
  }
  std::optional<std::string> check(WarningsWriter& writer, std::int64_t step) const {
    return writer.check(task_, step, {100, 10});
  }
  std::string file() const { return folder_.read("warnings.jsonl"); }

  TempFolder folder_;
  ExperimentConfig config_ = two_views_config();
  WarningTask task_;
};

TEST_F(Warnings, MeansCountSamplesOfTerms) {
  WarningsWriter writer(folder_.path(), {});
  const auto add_part = [&](double value, double share) {
    StepReport report;
    report.terms = {{"figure", value}};
    report.shares = {share};
    writer.add(report);
  };
  add_part(1, 0.25);
  add_part(std::numeric_limits<double>::quiet_NaN(), 0);  // no sample in this step
  add_part(0.2, 0.75);
  EXPECT_FALSE(check(writer, 3));
  add_part(std::numeric_limits<double>::quiet_NaN(), 0);
  EXPECT_FALSE(check(writer, 4));
  ASSERT_EQ(task_.seen.size(), 2u);
  EXPECT_DOUBLE_EQ(task_.seen[0], 0.25 * 1 + 0.75 * 0.2);
  EXPECT_TRUE(std::isnan(task_.seen[1]));
}

TEST_F(Warnings, SeeMeansOfFiniteStepsSinceLastCheck) {
  WarningsWriter writer(folder_.path(), {});
  EXPECT_FALSE(check(writer, 0)) << "no step";
  add(writer, 0.25);
  add(writer, 0.75);
  add(writer, 100, false);
  EXPECT_FALSE(check(writer, 3));
  add(writer, -1);
  EXPECT_FALSE(check(writer, 4));
  EXPECT_EQ(task_.seen, (std::vector<double>{0.5, -1}));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "warnings.jsonl"));
}

TEST_F(Warnings, ReportEachKindOnce) {
  WarningsWriter writer(folder_.path(), {});
  add(writer, 2);
  EXPECT_EQ(check(writer, 5), "5 of 100 steps");
  add(writer, 2);
  EXPECT_FALSE(check(writer, 6));
  task_.name = "higher";
  add(writer, 2);
  EXPECT_EQ(check(writer, 7), "7 of 100 steps");
  EXPECT_EQ(file(),
            "{\"step\":5,\"epoch\":0.5,\"name\":\"high\",\"text\":\"5 of 100 steps\"}\n"
            "{\"step\":7,\"epoch\":0.7,\"name\":\"higher\",\"text\":\"7 of 100 steps\"}\n");
}

TEST_F(Warnings, SurviveResume) {
  const auto report_at = [&](std::optional<std::int64_t> resumed_at, std::int64_t step) {
    WarningsWriter writer(folder_.path(), resumed_at);
    add(writer, 2);
    return check(writer, step);
  };
  EXPECT_TRUE(report_at({}, 5));
  const std::string first = file();
  EXPECT_FALSE(report_at(5, 6)) << "the run has reported it";
  EXPECT_EQ(file(), first);
  EXPECT_TRUE(report_at(4, 6)) << "the line was of a later step";
  EXPECT_TRUE(report_at({}, 7)) << "another run";
  EXPECT_EQ(file(), "{\"step\":7,\"epoch\":0.7,\"name\":\"high\",\"text\":\"7 of 100 steps\"}\n");
}

}  // namespace
}  // namespace dtn::test
