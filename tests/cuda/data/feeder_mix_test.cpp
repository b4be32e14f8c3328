// Compares batches that the feeder mixes with batches of the loader that are mixed by the formulas.
// Each batch is copied in stream order, as a training step would read it.
#include <cmath>
#include <set>

#include "cuda/data/feeder_fixtures.h"
#include "data/sample/mixing.h"

namespace dtn {
namespace {

using namespace dtn::test;

constexpr std::uint64_t kSeed = 6;
constexpr int kOffEpoch = 2;

AugmentConfig both() {
  AugmentConfig augment;
  augment.mixup = 0.8;
  augment.cutmix = 1;
  augment.mix_chance = 0.8;
  augment.mix_off_epoch = kOffEpoch;
  return augment;
}

BatchMix mix_of(std::int64_t epoch, std::int64_t number) {
  return sample_mix(kSide, kSide, both(),
                    {kSeed, static_cast<std::uint32_t>(epoch), static_cast<std::uint64_t>(number)});
}

struct MixedSeen {
  Seen batch;
  Tensor partners, share;
};

MixedSeen mixed(const Seen& batch, const BatchMix& mix) {
  const auto share = static_cast<float>(mix.share), rest = static_cast<float>(1 - mix.share);
  MixedSeen m{batch, batch.labels.clone(), Tensor::full({batch.n}, DType::kFloat32, share)};
  m.batch.images = batch.images.clone();
  const std::int64_t n = batch.n, each = batch.images.numel() / n;
  for (std::int64_t i = 0; i < n * each; ++i) {
    const std::int64_t b = i / each, x = i % kSide, y = i / kSide % kSide;
    if (2 * b + 1 == n) continue;  // the middle image has no partner
    const float own = batch.images.data<float>()[i];
    const float partner = batch.images.data<float>()[(n - 1 - b) * each + i % each];
    const bool in =
        x >= mix.left && x < mix.left + mix.width && y >= mix.top && y < mix.top + mix.height;
    const volatile float other = rest * partner;  // rounded to float
    float& value = m.batch.images.data<float>()[i];
    if (mix.cut && in) value = partner;
    if (!mix.cut && mix.share != 1) value = std::fma(share, own, other);
  }
  for (std::int64_t b = 0; b < n; ++b) {
    m.partners.data<std::int64_t>()[b] = batch.labels.data<std::int64_t>()[n - 1 - b];
  }
  return m;
}

std::vector<MixedSeen> play_mixed(BatchFeeder& feeder, std::set<const void*>& addresses) {
  std::vector<MixedSeen> seen;
  DeviceBatch batch;
  while (feeder.next(batch)) {
    seen.push_back({{batch.number, batch.n, batch.indices, batch.fields.at("image").clone(),
                     batch.fields.at("label").clone(), batch.host.at("label").clone()},
                    batch.fields.at("partner_label").clone(),
                    batch.fields.at("label_share").clone()});
    addresses.insert(batch.fields.at("partner_label").raw());
    addresses.insert(batch.fields.at("label_share").raw());
  }
  return seen;
}

// Checks even and odd batches, from the start and from the middle of an epoch, before and after
// mixing ends. The loader gives pixels or images.
void expect_mixed(Device device, bool raw, std::int64_t batch_size, int (&kinds)[3]) {
  SCOPED_TRACE(cat(to_string(device), ", raw ", raw, ", ", batch_size));
  auto set = std::make_shared<NoisyImages>(47);
  const Transform transform = make_transform(true);
  LoaderOptions options = loading(true, 2);
  options.batch_size = batch_size;
  options.seed = kSeed;
  Loader loader(samples(set, transform, raw, both()), feeding(device, options));
  BatchFeeder feeder(loader, device);
  std::set<const void*> addresses;
  for (auto [epoch, first] : {std::pair{0, 0}, {1, 4}, {kOffEpoch, 0}, {kOffEpoch + 1, 3}}) {
    feeder.start(epoch, first);
    const std::vector<MixedSeen> got = play_mixed(feeder, addresses);
    const std::vector<Seen> plain = expected_of(set, transform, options, epoch, first);
    ASSERT_EQ(got.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const BatchMix mix = mix_of(epoch, plain[i].number);
      if (epoch >= kOffEpoch) {
        EXPECT_EQ(mix, BatchMix{});
      }
      ++kinds[mix.cut ? 2 : mix.share != 1];
      const MixedSeen want = mixed(plain[i], mix);
      EXPECT_TRUE(same_bits(got[i].partners.to(kCpu), want.partners));
      EXPECT_TRUE(same_bits(got[i].share.to(kCpu), want.share));
      expect_same({got[i].batch}, {want.batch});
    }
  }
  EXPECT_EQ(addresses.size(), 2u);
}

// The CPU part needs no device.
TEST(BatchFeeder, MixesBatchesOnCpuAndDevice) {
  std::vector<Device> devices{kCpu};
  if (cuda::unavailable_reason().empty()) devices.push_back(kCuda);
  int kinds[3] = {};  // unmixed, mixup, CutMix
  for (Device device : devices) {
    for (bool raw : {true, false}) {
      for (std::int64_t batch_size : {4, 5}) expect_mixed(device, raw, batch_size, kinds);
    }
  }
  EXPECT_TRUE(kinds[0] && kinds[1] && kinds[2]);
}

}  // namespace
}  // namespace dtn
