#include "dtn/core/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/allocator.h"

namespace dtn {
namespace {

Tensor counting(const Shape& shape) {
  std::vector<float> v(static_cast<std::size_t>(shape.numel()));
  std::iota(v.begin(), v.end(), 0.0f);
  return Tensor::from(v, shape);
}

TEST(Tensor, Creation) {
  Tensor z = Tensor::zeros({2, 3}, DType::kFloat64);
  for (double v : z.values<double>()) EXPECT_EQ(v, 0);
  Tensor h = Tensor::full({5}, DType::kBFloat16, 1.5);
  for (bfloat16 v : h.values<bfloat16>()) EXPECT_EQ(static_cast<float>(v), 1.5f);
  EXPECT_EQ(h.nbytes(), 10u);
  EXPECT_EQ(Tensor::full({2}, DType::kInt64, -7).values<std::int64_t>()[1], -7);
  EXPECT_EQ(Tensor::full({2}, DType::kUInt8, 200).values<std::uint8_t>()[1], 200);
  EXPECT_EQ(Tensor::full({}, DType::kFloat32, 2).numel(), 1);
  Tensor like = Tensor::empty_like(h);
  EXPECT_EQ(like.shape(), h.shape());
  EXPECT_EQ(like.dtype(), h.dtype());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(like.raw()) % 64, 0u);
}

TEST(Tensor, FromRequiresMatchingCount) {
  EXPECT_THROW(Tensor::from(std::vector<float>(5), {2, 3}), Error);
}

TEST(Tensor, TypedAccessIsChecked) {
  Tensor t = counting({2});
  EXPECT_THROW(t.data<double>(), Error);
  EXPECT_THROW(Tensor().data<float>(), Error);
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, ReshapeSharesStorage) {
  Tensor t = counting({2, 6});
  Tensor r = t.reshape({3, -1});
  EXPECT_EQ(r.shape(), (Shape{3, 4}));
  r.data<float>()[11] = 99;
  EXPECT_EQ(t.values<float>()[11], 99);
  EXPECT_EQ(t.reshape({-1}).shape(), (Shape{12}));
  EXPECT_EQ(t.reshape({12, -1}).shape(), (Shape{12, 1}));
}

TEST(Tensor, ReshapeRejectsInvalidShapes) {
  Tensor t = counting({2, 6});
  EXPECT_THROW(t.reshape({5, 2}), Error);
  EXPECT_THROW(t.reshape({5, -1}), Error);
  EXPECT_THROW(t.reshape({-1, -1}), Error);
  EXPECT_THROW(t.reshape({-2, 6}), Error);
  EXPECT_THROW(t.reshape({1, 1, 1, 1, 1, 1, 12}), Error);
}

TEST(Tensor, SliceIsAView) {
  Tensor t = counting({4, 3});
  Tensor s = t.slice(1, 3);
  EXPECT_EQ(s.shape(), (Shape{2, 3}));
  EXPECT_EQ(s.values<float>()[0], 3);
  Tensor inner = s.slice(1, 2);
  EXPECT_EQ(inner.values<float>()[2], 8);
  inner.data<float>()[2] = -1;
  EXPECT_EQ(t.values<float>()[8], -1);
  EXPECT_EQ(t.slice(4, 4).numel(), 0);
  EXPECT_EQ(t.slice(0, 4).shape(), t.shape());
}

TEST(Tensor, SliceOutOfRangeIsAnError) {
  Tensor t = counting({4, 3});
  EXPECT_THROW(t.slice(-1, 2), Error);
  EXPECT_THROW(t.slice(3, 2), Error);
  EXPECT_THROW(t.slice(0, 5), Error);
  EXPECT_THROW(t.slice(0, std::numeric_limits<std::int64_t>::max()), Error);
  EXPECT_THROW(Tensor::zeros({}, DType::kFloat32).slice(0, 1), Error);
}

TEST(Tensor, EmptyTensorsWork) {
  Tensor t = Tensor::zeros({0, 5}, DType::kFloat32);
  EXPECT_EQ(t.nbytes(), 0u);
  EXPECT_EQ(t.slice(0, 0).shape(), (Shape{0, 5}));
  EXPECT_EQ(t.clone().numel(), 0);
  EXPECT_EQ(t.reshape({5, 0}).shape(), (Shape{5, 0}));
}

TEST(Tensor, CloneIsIndependent) {
  Tensor t = counting({3});
  Tensor c = t.clone();
  c.data<float>()[0] = 7;
  EXPECT_EQ(t.values<float>()[0], 0);
  EXPECT_FALSE(Tensor().clone().defined());
}

TEST(Tensor, CopyFromChecksTypeAndCount) {
  Tensor t = counting({6});
  t.copy_from(Tensor::full({2, 3}, DType::kFloat32, 4));
  EXPECT_EQ(t.values<float>()[5], 4);
  EXPECT_THROW(t.copy_from(Tensor::zeros({5}, DType::kFloat32)), Error);
  EXPECT_THROW(t.copy_from(Tensor::zeros({6}, DType::kInt64)), Error);
  Tensor v = counting({6});
  v.slice(0, 4).copy_from(v.slice(2, 6));  // overlapping
  EXPECT_EQ(v.values<float>()[3], 5);
}

TEST(Tensor, ZeroOfSliceKeepsOtherRows) {
  Tensor t = counting({4, 3});
  t.slice(1, 2).zero();
  EXPECT_EQ(t.values<float>()[2], 2);
  EXPECT_EQ(t.values<float>()[3], 0);
  EXPECT_EQ(t.values<float>()[5], 0);
  EXPECT_EQ(t.values<float>()[6], 6);
}

TEST(Tensor, UniqueCountsHandles) {
  Tensor t = counting({4});
  EXPECT_TRUE(t.unique());
  {
    Tensor view = t.slice(0, 1);
    EXPECT_FALSE(t.unique());
  }
  EXPECT_TRUE(t.unique());
}

TEST(Tensor, WrapKeepsOwnerAlive) {
  std::shared_ptr<std::byte> owner = allocate_cached(64);
  std::weak_ptr<std::byte> watch = owner;
  Tensor t = Tensor::wrap(std::move(owner), 16, {3}, DType::kFloat32);
  EXPECT_EQ(t.raw(), watch.lock().get() + 16);
  Tensor view = t.slice(1, 2);
  t = Tensor();
  EXPECT_FALSE(watch.expired());
  view = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, RejectsTooLargeSizes) {
  const std::int64_t max = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(Tensor::empty({max, 2}, DType::kUInt8), Error);  // numel overflows
  EXPECT_THROW(Tensor::empty({max}, DType::kFloat64), Error);   // the size in bytes overflows
  EXPECT_THROW(Tensor::empty({max}, DType::kUInt8), Error);     // more than any machine has
  EXPECT_THROW(Tensor::empty({1ll << 60}, DType::kFloat32), Error);
  EXPECT_NO_THROW(Tensor::empty({4}, DType::kFloat32));
}

TEST(Tensor, RejectsCudaWithoutBackend) {
  EXPECT_THROW(Tensor::empty({1}, DType::kFloat32, {DeviceType::kCuda, 0}), Error);
}

TEST(Device, NamesAndErrors) {
  EXPECT_EQ(parse_device("cpu"), kCpu);
  EXPECT_EQ(to_string(kCpu), "cpu");
  EXPECT_EQ(to_string(Device{DeviceType::kCuda, 1}), "cuda:1");
  EXPECT_THROW(parse_device("gpu"), ConfigError);
  EXPECT_THROW(parse_device(""), ConfigError);
}

}  // namespace
}  // namespace dtn
