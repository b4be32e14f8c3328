#include "kernels/loss/dino_loss.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

struct DinoSizes {
  std::int64_t samples, local_views, outputs;
  double spread = 0.3;
  std::int64_t shift = 0;  // of the logits in their memory; with 1 no vector load can read them

  std::string name() const {
    return cat("n ", samples, " L ", local_views, " K ", outputs, shift ? " shifted" : "");
  }
};

// Inputs and outputs of the kernels, on both sides.
struct DinoTwins : DinoSizes {
  DType dtype;
  Twin student, teacher, student_scale, teacher_scale, center, temperature, upstream;
  Twin student_lse, teacher_lse, loss, loss_global, loss_local, entropy, center_norm;
  Twin dstudent, column_sums, next_center;

  DinoTwins(DType d, const DinoSizes& sizes) : DinoSizes(sizes), dtype(d) {
    const DType acc = accumulator_of(d);
    const std::int64_t rows = (2 + local_views) * samples;
    // All types have the same numbers.
    const auto input = [](const Shape& shape, DType type, std::uint32_t stream, double size,
                          double mean = 0) {
      return Twin(as(representable(random_tensor(shape, stream, size, mean)), type));
    };
    student = input({rows * outputs + shift}, d, 1, spread);
    teacher = input({2 * samples * outputs + shift}, d, 2, spread);
    student_scale = input({outputs}, acc, 3, 0.25, 1);
    teacher_scale = input({outputs}, acc, 4, 0.25, 1);
    center = input({outputs}, acc, 5, 0.1);
    next_center = input({outputs}, acc, 6, 0.1);
    temperature = Twin(Tensor::full({1}, DType::kFloat64, 0.04));
    upstream = Twin(Tensor::full({1}, acc, -0.75));
    student_lse = Twin::output({rows}, acc);
    teacher_lse = Twin::output({2 * samples}, acc);
    for (Twin* figure : {&loss, &loss_global, &loss_local, &entropy, &center_norm}) {
      *figure = Twin::output({1}, acc);
    }
    dstudent = Twin::output({rows * outputs + shift}, d);
    column_sums = Twin::output({outputs}, acc);
  }

  void* logits_at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }
  DinoLossInputs inputs(Where w) const {
    return {.dtype = dtype,
            .samples = samples,
            .local_views = local_views,
            .outputs = outputs,
            .student = logits_at(student, w),
            .teacher = logits_at(teacher, w),
            .student_scale = student_scale.at(w),
            .teacher_scale = teacher_scale.at(w),
            .center = center.at(w),
            .student_temp = 0.1,
            .teacher_temp = static_cast<const double*>(temperature.at(w))};
  }
  DinoLossForward forward(Where w) const {
    return {inputs(w),         student_lse.at(w), teacher_lse.at(w), loss.at(w),
            loss_global.at(w), loss_local.at(w),  entropy.at(w),     center_norm.at(w)};
  }
  DinoLossBackward backward(Where w) const {
    return {inputs(w),      student_lse.at(w),      teacher_lse.at(w),
            upstream.at(w), logits_at(dstudent, w), column_sums.at(w)};
  }
  DinoCenterStep center_step(Where w) const {
    return {dtype,        2 * samples, outputs,          logits_at(teacher, w), teacher_scale.at(w),
            center.at(w), 0.3,         next_center.at(w)};
  }
  template <class Queue>
  void run_all(Queue& queue, Where w) const {
    run(queue, forward(w));
    run(queue, backward(w));
    run(queue, center_step(w));
  }
  std::vector<Tensor> results() const {
    std::vector<Tensor> all;
    for (const Twin* t : {&student_lse, &teacher_lse, &loss, &loss_global, &loss_local, &entropy,
                          &center_norm, &dstudent, &column_sums, &next_center}) {
      all.push_back(t->device());
    }
    return all;
  }
};

// Compares the device with float64 on the CPU. The rounding error of a softmax argument is
// proportional to its size, and the exponential turns it into a relative error.
std::vector<Tensor> check(DType dtype, const DinoSizes& sizes) {
  const std::string what = sizes.name();
  SCOPED_TRACE(cat(name_of(dtype), " ", what));
  const DinoTwins exact(DType::kFloat64, sizes), p(dtype, sizes);
  exact.run_all(cpu_queue(), kOnHost);
  p.run_all(cuda_queue(), kOnDevice);
  const double largest_argument = (1.25 * sizes.spread + 0.1) / 0.04;
  const double softmax = 4 * unit_roundoff(DType::kFloat32) * (8 + 2 * largest_argument);
  const double sum = rounding_bound(DType::kFloat32, sizes.outputs) + softmax;
  const double stored = (dtype == DType::kBFloat16 ? unit_roundoff(dtype) : 0) + sum;
  const auto compare = [&](const char* kernel, const Twin& got, const Twin& want, double bound,
                           double floor = 1e-30) {
    expect_close(kernel, what, got.device(), doubles(want.host()), bound, floor);
  };
  compare("dino_loss_tiles", p.student_lse, exact.student_lse, sum, 1);
  compare("dino_loss_tiles", p.teacher_lse, exact.teacher_lse, sum, 1);
  compare("dino_loss_samples", p.loss, exact.loss, sum, 1);
  compare("dino_loss_samples", p.loss_global, exact.loss_global, sum, 1);
  compare("dino_loss_samples", p.loss_local, exact.loss_local, sum, 1);
  compare("dino_loss_samples", p.entropy, exact.entropy, sum, 1);
  compare("dino_loss_means", p.center_norm, exact.center_norm, sum);
  compare("dino_loss_backward", p.dstudent, exact.dstudent, stored);
  compare("dino_loss_backward", p.column_sums, exact.column_sums, sum * 4);
  compare("dino_center", p.next_center, exact.next_center,
          4 * rounding_bound(DType::kFloat32, 2 * sizes.samples));
  return p.results();
}

const DType kDinoTypes[] = {DType::kFloat32, DType::kBFloat16};

TEST(CudaDinoLoss, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kDinoTypes) {
    for (const DinoSizes& sizes : {DinoSizes{1, 0, 2},
                                   {3, 1, 7},
                                   {1, 8, 64},
                                   {10, 5, 300},
                                   {2, 2, 2320},
                                   {2, 9, 260, 0.3, 1}}) {
      under_every_schedule([&] { return check(dtype, sizes); });
    }
  }
}

TEST(CudaDinoLoss, MatchesFloat64ForWideOutput) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kDinoTypes) check(dtype, {1, 1, 65536});
}

// Arguments of a softmax up to 3e4.
TEST(CudaDinoLoss, AccurateForLargeLogits) {
  DTN_SKIP_WITHOUT_DEVICE();
  check(DType::kFloat32, {2, 1, 300, 1000});
}

TEST(CudaDinoLoss, GradientMayOverwriteLogits) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kDinoTypes) {
    for (std::int64_t outputs : {37, 264}) {
      const DinoTwins p(dtype, {3, 5, outputs});
      run(cuda_queue(), p.forward(kOnDevice));
      run(cuda_queue(), p.backward(kOnDevice));
      const Tensor sums = p.column_sums.device();
      DinoLossBackward in_place = p.backward(kOnDevice);
      in_place.dstudent = p.student.at(kOnDevice);
      run(cuda_queue(), in_place);
      EXPECT_TRUE(same_bits(p.student.device(), p.dstudent.device()));
      EXPECT_TRUE(same_bits(p.column_sums.device(), sums));
    }
  }
}

TEST(CudaDinoLoss, NaNReachesLossAndItsOwnRowOnly) {
  DTN_SKIP_WITHOUT_DEVICE();
  DinoTwins p(DType::kFloat32, {2, 1, 300});
  Tensor student = p.student.host();
  const std::int64_t row = p.inputs(kOnHost).student_row(1, 2);
  student.data<float>()[row * 300 + 271] = NAN;
  p.student = Twin(student);
  run(cuda_queue(), p.forward(kOnDevice));
  run(cuda_queue(), p.backward(kOnDevice));
  EXPECT_TRUE(std::isnan(doubles(p.loss.device())[0]));
  EXPECT_TRUE(std::isnan(doubles(p.loss_local.device())[0]));
  EXPECT_TRUE(std::isfinite(doubles(p.loss_global.device())[0]));
  const Doubles gradient = doubles(p.dstudent.device());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_EQ(std::isnan(gradient[i]), i / 300 == static_cast<std::size_t>(row)) << i;
  }
}

TEST(CudaDinoLoss, RejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const DinoTwins p(DType::kFloat64, {1, 1, 8});
  EXPECT_THROW(run(cuda_queue(), p.forward(kOnDevice)), Error);
  EXPECT_THROW(run(cuda_queue(), p.backward(kOnDevice)), Error);
  EXPECT_THROW(run(cuda_queue(), p.center_step(kOnDevice)), Error);
}

}  // namespace
}  // namespace dtn::test
