#include "kernels/pointwise/modulate.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

constexpr DType kFloat = DType::kFloat32;
const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

struct Size {
  std::int64_t batch, tokens, channels;
};
// Rows with and without vectors, several tiles of channels, one token, one channel.
const Size kSizes[] = {{3, 37, 64}, {2, 50, 77}, {1, 5, 520}, {4, 1, 8}, {2, 7, 1}, {1, 197, 264}};

// Inputs and outputs of all kernels, on both sides. Activations begin `shift` elements into their
// memory. With shift 1 no vector load can read them.
struct Problem {
  DType dtype;
  Size size;
  std::int64_t shift;
  Twin x, modulation, samples, dy, add, gate, row_gain, row_shift;
  Twin y, dx, dmodulation, dsamples, dgate, drow_gain, drow_shift;

  Problem(DType d, Size s, std::int64_t shifted = 0) : dtype(d), size(s), shift(shifted) {
    x = random_twin(activation(1), d, 1);
    modulation = random_twin(activation(2), d, 2);
    samples = random_twin({2 * s.batch * s.channels}, kFloat, 8);
    dy = random_twin(activation(1), d, 3);
    add = random_twin(activation(1), d, 4);
    gate = random_twin({s.batch * s.channels}, kFloat, 5);
    row_gain = random_twin({rows()}, kFloat, 6);
    row_shift = random_twin({rows()}, kFloat, 7);
    make_outputs();
  }
  Problem in_float64() const {
    Problem p = *this;
    p.dtype = DType::kFloat64;
    for (Twin* t :
         {&p.x, &p.modulation, &p.samples, &p.dy, &p.add, &p.gate, &p.row_gain, &p.row_shift}) {
      *t = Twin(as(t->host(), DType::kFloat64));
    }
    p.make_outputs();
    return p;
  }

  std::int64_t rows() const { return size.batch * size.tokens; }
  Shape activation(std::int64_t times) const { return {rows() * size.channels * times + shift}; }
  void make_outputs() {
    const DType acc = accumulator_of(dtype);
    y = Twin::output(activation(1), dtype);
    dx = Twin::output(activation(1), dtype);
    dmodulation = Twin::output(activation(2), dtype);
    dsamples = Twin::output({2 * size.batch * size.channels}, acc);
    dgate = Twin::output({size.batch * size.channels}, acc);
    drow_gain = Twin::output({rows()}, acc);
    drow_shift = Twin::output({rows()}, acc);
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }

  ModulateForward modulate(Where w) const {
    return {dtype, rows(), size.channels, at(x, w), at(modulation, w), at(y, w)};
  }
  ModulateBackward modulate_backward(Where w) const {
    return {dtype,     rows(),     size.channels, at(x, w),          at(modulation, w),
            at(dy, w), at(add, w), at(dx, w),     at(dmodulation, w)};
  }
  ModulateSamplesForward samples_forward(Where w) const {
    return {dtype, size.batch, size.tokens, size.channels, at(x, w), samples.at(w), at(y, w)};
  }
  ModulateSamplesBackward samples_backward(Where w) const {
    return {dtype,         size.batch, size.tokens, size.channels, at(x, w),
            samples.at(w), at(dy, w),  at(add, w),  at(dx, w),     dsamples.at(w)};
  }
  GateForward gate_forward(Where w) const {
    return {dtype,    size.batch, size.tokens, size.channels,
            at(x, w), gate.at(w), at(add, w),  at(y, w)};
  }
  GateBackward gate_backward(Where w) const {
    return {dtype,      size.batch, size.tokens, size.channels, at(x, w),
            gate.at(w), at(dy, w),  at(dx, w),   dgate.at(w)};
  }
  ScaleShiftRowsForward rows_forward(Where w) const {
    return {dtype, rows(), size.channels, at(x, w), row_gain.at(w), row_shift.at(w), at(y, w)};
  }
  ScaleShiftRowsBackward rows_backward(Where w) const {
    return {dtype,     rows(),    size.channels,   at(x, w),        row_gain.at(w),
            at(dy, w), at(dx, w), drow_gain.at(w), drow_shift.at(w)};
  }
};

template <class Arguments>
void run_both(const Problem& p, Arguments (Problem::*of)(Where) const) {
  run(cpu_queue(), (p.*of)(kOnHost));
  run(cuda_queue(), (p.*of)(kOnDevice));
}

struct Output {
  const char* name;
  Twin Problem::*twin;
  std::int64_t terms;  // of each sum; 0: elementwise, in the dtype of x
};

// Runs a kernel on the device, on the host and in float64, and compares the outputs.
template <class Arguments>
void check(const Problem& p, Arguments (Problem::*of)(Where) const,
           const std::vector<Output>& outputs) {
  const Problem exact = p.in_float64();
  run(cpu_queue(), (exact.*of)(kOnHost));
  run_both(p, of);
  const std::string what =
      cat(p.size.batch, " x ", p.size.tokens, " x ", p.size.channels, p.shift ? " shifted" : "");
  for (const Output& o : outputs) {
    const double bound = rounding_bound(o.terms ? kFloat : p.dtype, o.terms ? o.terms : 1);
    // The scale of a sum is at least the size of its terms, which are products below 1.
    const double floor = o.terms ? 1 : 1e-30;
    const Twin &got = p.*o.twin, &want = exact.*o.twin;
    auto values = [&](const Tensor& t) {
      Doubles v = doubles(t);
      if (!o.terms) v.erase(v.begin(), v.begin() + p.shift);
      return v;
    };
    const double error = relative_error(values(got.device()), values(want.host()), floor);
    EXPECT_LE(error, bound) << o.name << " " << what;
    record_error("modulate", cat(o.name, " ", what), got.host().dtype(), error, bound);
    EXPECT_LE(relative_error(values(got.host()), values(want.host()), floor), bound)
        << o.name << " on the host, " << what;
  }
}

TEST(CudaModulate, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (Size size : kSizes) {
      for (std::int64_t shift : {0, 1}) {
        const Problem p(dtype, size, shift);
        check(p, &Problem::modulate, {{"modulate y", &Problem::y, 0}});
        check(p, &Problem::modulate_backward,
              {{"modulate dx", &Problem::dx, 0}, {"dmodulation", &Problem::dmodulation, 0}});
        check(p, &Problem::samples_forward, {{"samples y", &Problem::y, 0}});
        check(p, &Problem::samples_backward,
              {{"samples dx", &Problem::dx, 0}, {"dsamples", &Problem::dsamples, size.tokens}});
        check(p, &Problem::gate_forward, {{"gate y", &Problem::y, 0}});
        check(p, &Problem::gate_backward,
              {{"gate dx", &Problem::dx, 0}, {"dgain", &Problem::dgate, size.tokens}});
        check(p, &Problem::rows_forward, {{"rows y", &Problem::y, 0}});
        check(p, &Problem::rows_backward,
              {{"rows dx", &Problem::dx, 0},
               {"row dgain", &Problem::drow_gain, size.channels},
               {"row dshift", &Problem::drow_shift, size.channels}});
      }
    }
  }
}

TEST(CudaModulate, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    under_every_schedule([&] {
      const Problem p(dtype, {2, 37, 136});
      run(cuda_queue(), p.modulate_backward(kOnDevice));
      std::vector<Tensor> results = {p.dx.device(), p.dmodulation.device()};
      run(cuda_queue(), p.samples_backward(kOnDevice));
      run(cuda_queue(), p.gate_backward(kOnDevice));
      run(cuda_queue(), p.rows_backward(kOnDevice));
      for (const Twin* t : {&p.dsamples, &p.dgate, &p.drow_gain, &p.drow_shift})
        results.push_back(t->device());
      return results;
    });
  }
}

TEST(CudaModulate, RunsInPlaceAndSkipsNullOutputs) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    const Problem p(dtype, kSizes[0]), in_place(dtype, kSizes[0]), none(dtype, kSizes[0]);
    run(cuda_queue(), p.modulate(kOnDevice));
    ModulateForward forward = in_place.modulate(kOnDevice);
    forward.y = in_place.x.at(kOnDevice);
    run(cuda_queue(), forward);
    EXPECT_TRUE(same_bits(in_place.x.device(), p.y.device()));
    run(cuda_queue(), p.modulate_backward(kOnDevice));
    ModulateBackward over_add = p.modulate_backward(kOnDevice);
    over_add.dmodulation = nullptr;
    over_add.dx = p.add.at(kOnDevice);
    run(cuda_queue(), over_add);
    EXPECT_TRUE(same_bits(p.add.device(), p.dx.device()));

    ModulateBackward modulate = none.modulate_backward(kOnDevice);
    modulate.dx = nullptr;
    run(cuda_queue(), modulate);
    EXPECT_TRUE(same_bits(none.dmodulation.device(), p.dmodulation.device()));
    GateBackward gate = none.gate_backward(kOnDevice);
    gate.dx = nullptr;
    run(cuda_queue(), gate);
    ScaleShiftRowsBackward rows = none.rows_backward(kOnDevice);
    rows.dx = nullptr;
    rows.dgain = nullptr;
    run(cuda_queue(), rows);
    EXPECT_TRUE(same_bits(none.dx.device(), none.dx.host())) << "still poisoned";
    EXPECT_TRUE(same_bits(none.drow_gain.device(), none.drow_gain.host()));
    run(cuda_queue(), p.gate_backward(kOnDevice));
    run(cuda_queue(), p.rows_backward(kOnDevice));
    EXPECT_TRUE(same_bits(none.dgate.device(), p.dgate.device()));
    EXPECT_TRUE(same_bits(none.drow_shift.device(), p.drow_shift.device()));
    GateForward no_residual = none.gate_forward(kOnDevice);
    no_residual.residual = nullptr;
    run(cuda_queue(), no_residual);
    GateBackward as_product = p.gate_backward(kOnDevice);  // dx = gain dy, with x as dy
    as_product.dy = p.x.at(kOnDevice);
    run(cuda_queue(), as_product);
    EXPECT_TRUE(same_bits(none.y.device(), p.dx.device()));
  }
}

TEST(CudaModulate, SamplesRunInPlaceAndSkipNullOutputs) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    const Problem p(dtype, kSizes[0]), in_place(dtype, kSizes[0]), none(dtype, kSizes[0]);
    run(cuda_queue(), p.samples_forward(kOnDevice));
    ModulateSamplesForward forward = in_place.samples_forward(kOnDevice);
    forward.y = in_place.x.at(kOnDevice);
    run(cuda_queue(), forward);
    EXPECT_TRUE(same_bits(in_place.x.device(), p.y.device()));
    run(cuda_queue(), p.samples_backward(kOnDevice));
    ModulateSamplesBackward only_sums = none.samples_backward(kOnDevice);
    only_sums.dx = nullptr;
    run(cuda_queue(), only_sums);
    EXPECT_TRUE(same_bits(none.dsamples.device(), p.dsamples.device()));
    EXPECT_TRUE(same_bits(none.dx.device(), none.dx.host())) << "still poisoned";
    ModulateSamplesBackward over_add = p.samples_backward(kOnDevice);
    over_add.dmodulation = nullptr;
    over_add.dx = p.add.at(kOnDevice);
    run(cuda_queue(), over_add);
    EXPECT_TRUE(same_bits(p.add.device(), p.dx.device()));
  }
}

TEST(CudaModulate, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Problem p(kFloat, kSizes[0]);
  auto empty = [&](auto args) {
    args.channels = 0;
    run(cuda_queue(), args);
    args.dtype = DType::kFloat64;
    EXPECT_THROW(run(cuda_queue(), args), Error);
  };
  empty(p.modulate(kOnDevice));
  empty(p.modulate_backward(kOnDevice));
  empty(p.samples_forward(kOnDevice));
  empty(p.samples_backward(kOnDevice));
  empty(p.gate_forward(kOnDevice));
  empty(p.gate_backward(kOnDevice));
  empty(p.rows_forward(kOnDevice));
  ScaleShiftRowsBackward rows = p.rows_backward(kOnDevice);
  rows.rows = 0;
  run(cuda_queue(), rows);
  for (const Twin* t : {&p.y, &p.dx, &p.dsamples, &p.dgate, &p.drow_gain}) {
    EXPECT_TRUE(same_bits(t->device(), t->host())) << "still poisoned";
  }
}

}  // namespace
}  // namespace dtn::test
