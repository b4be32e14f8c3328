// Consistency checks between the ranks of a run: state, weights, config and data.
#include "train/rank_consistency.h"

#include <bit>
#include <functional>

#include "small_run.h"
#include "train/snapshot.h"
#include "unit/data/samples.h"

namespace dtn {
namespace {

using namespace dtn::test;

// Returns the message of E on each of three ranks; empty if a rank does not throw E.
template <class E>
std::vector<std::string> refusals(const std::function<void(Communicator&)>& body) {
  return on_ranks(3, [&](Communicator& ranks) -> std::string {
    try {
      body(ranks);
    } catch (const E& e) {
      return e.what();
    }
    return "";
  });
}

// Expects every message to name exactly these ranks.
void expect_blamed(const std::vector<std::string>& messages, const std::vector<int>& blamed,
                   const std::string& text) {
  for (const std::string& message : messages) {
    EXPECT_NE(message.find(text), std::string::npos) << message;
    for (int rank : {1, 2}) {
      const bool named = message.find(cat("rank ", rank, " on ")) != std::string::npos;
      EXPECT_EQ(named, std::ranges::find(blamed, rank) != blamed.end()) << message;
    }
  }
}

// --- share_run ----------------------------------------------------------------------------------

struct SharedRun {
  Outcome given, next;  // the run that was shared, and a step further
  RunProgress progress;
};

// The first rank has trained for three steps; the others have other steps and other weights.
SharedRun share(ExperimentConfig config, bool resumed, Communicator& ranks) {
  config.seed = 3 + static_cast<std::uint64_t>(ranks.rank());
  ClassifyLearner learner(config);
  perturb(learner.parameters(), 0.1 * (1 + ranks.rank()));
  const int steps = ranks.is_root() ? 3 : ranks.rank() - 1;
  for (int i = 0; i < steps; ++i) take_step(learner, global_batch(config, i + ranks.rank()), i);
  SharedRun run;
  if (ranks.is_root()) {
    run.progress = {123, 100, 90, 71.25, 2, 40};
    if (resumed) run.progress.resumed_at = 123;
  }
  share_run(learner, run.progress, ranks);
  run.given = outcome_of(learner);
  config.model.drop_path = config.model.dropout = 0;
  const StepReport report = take_step(learner, global_batch(config, 50), 123);
  run.next = outcome_of(learner);
  run.next.losses.push_back(report.loss);
  run.next.norms.push_back(report.grad_norm);
  return run;
}

TEST(ShareRun, BroadcastsStateOfFirstRank) {
  for (const char* norm : {"bn", "power"}) {
    for (const char* optimizer : {"adamw", "sgd", "lion", "lamb", "muon"}) {
      for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
        SCOPED_TRACE(cat(norm, ", ", optimizer));
        ExperimentConfig config = small_run(norm);
        config.model.drop_path = config.model.dropout = 0;  // these depend on the seed
        use_optimizer(config, optimizer);
        config.train.precision = precision;
        const bool resumed = precision == Precision::kFloat32;
        const auto runs =
            on_ranks(3, [&](Communicator& ranks) { return share(config, resumed, ranks); });
        EXPECT_EQ(runs[0].given.updates, 3);
        for (const SharedRun& run : runs) {
          expect_same_bits(run.given, runs[0].given);
          expect_same_bits(run.next, runs[0].next);
          EXPECT_EQ(run.progress.step, 123);
          EXPECT_EQ(run.progress.evaluated_step, 100);
          EXPECT_EQ(run.progress.best_step, 90);
          EXPECT_EQ(run.progress.best, 71.25);
          EXPECT_EQ(run.progress.bad_steps, 2);
          EXPECT_EQ(run.progress.steps_per_epoch, 40);
          EXPECT_EQ(run.progress.resumed_at.value_or(-1), resumed ? 123 : -1);
        }
      }
    }
  }
}

TEST(ShareRun, BroadcastsNumberOfLateUpdates) {
  const ExperimentConfig config = small_run("ln");
  const auto updates = on_ranks(3, [&](Communicator& ranks) {
    LateHead late(config, 2 - ranks.rank());
    for (int i = 0; i < 3; ++i) take_step(late.learner, global_batch(config, i), i);
    RunProgress progress;
    share_run(late.learner, progress, ranks);
    return late.learner.late_updates();
  });
  EXPECT_EQ(updates, (std::vector<std::int64_t>{1, 1, 1}));
}

// --- weights ------------------------------------------------------------------------------------

// Compares the same model on three ranks, after `change` has modified its weights.
std::vector<std::string> refused_weights(
    const std::function<void(int rank, ParameterStore& store)>& change) {
  return refusals<Error>([&](Communicator& ranks) {
    ClassifyLearner learner(small_run("bn"), kCpu, &ranks);
    change(ranks.rank(), learner.parameters());
    check_equal_weights(learner.parameters().values(), ranks);
  });
}

void flip_lowest_bit(Tensor x, std::int64_t i) {
  float& value = x.data<float>()[i];
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1u);
}

TEST(EqualWeights, AcceptsEqualWeights) {
  for (const std::string& why : refused_weights([](int, ParameterStore&) {})) EXPECT_EQ(why, "");
}

TEST(EqualWeights, DetectsOneBitAndNamesRank) {
  const std::string no_longer = "differ from those of rank 0 on ";
  for (int bad : {1, 2}) {
    expect_blamed(refused_weights([bad](int rank, ParameterStore& store) {
                    if (rank == bad) flip_lowest_bit(store.values(), store.flat_size() / 3);
                  }),
                  {bad}, no_longer);
  }
  // The last buffer is checked like the first weight.
  expect_blamed(refused_weights([](int rank, ParameterStore& store) {
                  if (rank == 1) flip_lowest_bit(store.values(), 0);
                  if (rank == 2) flip_lowest_bit(store.buffers().back().value, 3);
                }),
                {1, 2}, no_longer);
  expect_blamed(refused_weights([](int rank, ParameterStore& store) {
                  if (rank == 0) flip_lowest_bit(store.values(), 0);
                }),
                {1, 2}, no_longer);
}

// --- config and data ----------------------------------------------------------------------------

std::vector<std::string> refused_config(
    const std::function<void(int rank, ExperimentConfig& config)>& change) {
  return refusals<ConfigError>([&](Communicator& ranks) {
    ExperimentConfig config = small_run("dtn");
    change(ranks.rank(), config);
    check_equal_config(config, ranks);
  });
}

TEST(EqualConfig, ComparesEverythingExceptDataLocation) {
  const std::string differs = "differs from that of rank 0 on ";
  expect_blamed(refused_config([](int rank, ExperimentConfig& config) {
                  if (rank == 2) config.optim.lr *= 1 + 1e-9;
                }),
                {2}, differs);
  expect_blamed(refused_config([](int rank, ExperimentConfig& config) {
                  if (rank != 0) config.seed = static_cast<std::uint64_t>(rank);
                }),
                {1, 2}, differs);
  for (const std::string& why : refused_config([](int rank, ExperimentConfig&config) {
         config.data.root = cat("/machine/", rank);
         config.data.train = cat("train", rank);
         config.data.val = cat("val", rank);
         config.data.workers = rank;
       })) {
    EXPECT_EQ(why, "");
  }
}

class NamedItems : public Dataset {
 public:
  explicit NamedItems(int size) {
    for (int i = 0; i < size; ++i) {
      labels_.push_back(i % 10);
      names_.push_back(cat("item-", i));
    }
    description_ = cat(size, " images in /data");
  }
  Sample load(std::int64_t, SampleWorkspace&) const override { throw Error("never loaded"); }
  std::string sample_name(std::int64_t i) const override { return item_name(i); }
  std::string item_name(std::int64_t i) const override {
    return names_[static_cast<std::size_t>(i)];
  }
  void relabel(std::size_t i) { ++labels_[i]; }
  void rename(std::size_t i) { names_[i] += "-other"; }

 private:
  std::vector<std::string> names_;
};

// Compares the data of ranks with `size` images each, after `change` has modified them.
std::vector<std::string> refused_data(const std::function<int(int rank)>& size,
                                      const std::function<void(int rank, NamedItems&)>& change) {
  return refusals<DataError>([&](Communicator& ranks) {
    const auto items = std::make_shared<NamedItems>(size(ranks.rank()));
    change(ranks.rank(), *items);
    check_equal_data(*test::samples(items, Transform({}, {}, 4, 3, false)), ranks);
  });
}

constexpr int kImages = 1500;
int same_size(int) { return kImages; }
void no_change(int, NamedItems&) {}

TEST(EqualData, AcceptsEqualData) {
  for (const std::string& why : refused_data(same_size, no_change)) EXPECT_EQ(why, "");
}

TEST(EqualData, DetectsOtherCountNameOrLabelAndNamesRank) {
  const std::string others = "differ from those of rank 0 on ";
  const auto more =
      refused_data([](int rank) { return rank == 1 ? kImages + 1 : kImages; }, no_change);
  expect_blamed(more, {1}, others);
  // The message gives the images of the first rank.
  EXPECT_NE(more[0].find("(1500 images in /data)"), std::string::npos) << more[0];
  for (std::size_t i : {0, 700, kImages - 1}) {
    SCOPED_TRACE(i);
    const auto renamed = refused_data(same_size, [i](int rank, NamedItems& items) {
      if (rank == 2) items.rename(i);
    });
    expect_blamed(renamed, {2}, others);
    const auto relabelled = refused_data(same_size, [i](int rank, NamedItems& items) {
      if (rank != 0) items.relabel(i);
    });
    expect_blamed(relabelled, {1, 2}, others);
  }
}

}  // namespace
}  // namespace dtn
