// Kernels of pointwise.h that process rows, patches and sums.

#include "cuda/twin.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::test {
namespace {

constexpr DType kStored[] = {DType::kFloat32, DType::kBFloat16};

std::byte* bytes(void* p) { return static_cast<std::byte*>(p); }

TEST(CudaPointwiseRows, SumRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  struct Case {
    std::int64_t rows, columns;
    double mean;
  };
  // One, few and many chunks; one and several tiles of columns; vectors and single values.
  for (Case c : {Case{1, 1, 0.5}, Case{7, 15, 0.5}, Case{16, 8467, 0.5}, Case{128, 40, 0.5},
                 Case{129, 40, 0.5}, Case{197, 433, 0.5}, Case{1031, 3, 0.5}, Case{3136, 24, 0.5},
                 Case{784, 264, 1000}, Case{70001, 8, 1000}}) {
    for (DType dtype : kStored) {
      const Twin x = random_twin({c.rows, c.columns}, dtype, 20, 1, c.mean);
      Doubles want = doubles(Twin::accumulated({c.columns}, DType::kFloat32, 21).host());
      const Doubles values = doubles(x.host());
      for (std::size_t i = 0; i < values.size(); ++i) {
        want[i % static_cast<std::size_t>(c.columns)] += values[i];
      }
      under_every_schedule([&] {
        Twin out = Twin::accumulated({c.columns}, DType::kFloat32, 21);
        run(cuda_queue(), SumRows{dtype, c.rows, c.columns, x.at(kOnDevice), out.at(kOnDevice)});
        expect_close("sum_rows", cat(name_of(dtype), " ", c.rows, " x ", c.columns), out.device(),
                     want, rounding_bound(DType::kFloat32, c.rows));
        return std::vector{out.device()};
      });
    }
  }
}

TEST(CudaPointwiseRows, SumRowsOfUnalignedSlice) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t rows = 300, columns = 40;
  for (DType dtype : kStored) {
    under_every_schedule([&] {
      Twin x = random_twin({rows * columns + 1}, dtype, 22);
      Twin out = Twin::accumulated({columns}, DType::kFloat32, 23);
      auto args = [&](Where w) {
        return SumRows{dtype, rows, columns, bytes(x.at(w)) + size_of(dtype), out.at(w)};
      };
      run(cpu_queue(), args(kOnHost));
      run(cuda_queue(), args(kOnDevice));
      expect_close("sum_rows", "slice", out.device(), doubles(out.host()),
                   2 * rounding_bound(DType::kFloat32, rows));
      return std::vector{out.device()};
    });
  }
}

TEST(CudaPointwiseRows, MeanRowsForwardAndBackward) {
  DTN_SKIP_WITHOUT_DEVICE();
  struct Case {
    std::int64_t batch, rows, columns;
    double mean;
  };
  for (Case c : {Case{1, 1, 1, 0}, Case{3, 196, 24, 0}, Case{2, 197, 264, 1000},
                 Case{1, 49, 433, 1000}, Case{5, 31, 8, 0}}) {
    for (DType dtype : kStored) {
      const std::string what = cat(c.batch, " x ", c.rows, " x ", c.columns);
      const Twin x = random_twin({c.batch, c.rows, c.columns}, dtype, 24, 1, c.mean);
      under_every_schedule([&] {
        Twin y = Twin::output({c.batch, c.columns}, dtype);
        run(cuda_queue(),
            MeanRows{dtype, c.batch, c.rows, c.columns, x.at(kOnDevice), y.at(kOnDevice)});
        Tensor x64 = as(x.host(), DType::kFloat64);
        Tensor mean = Tensor::empty({c.batch, c.columns}, DType::kFloat64);
        run(cpu_queue(),
            MeanRows{DType::kFloat64, c.batch, c.rows, c.columns, x64.raw(), mean.raw()});
        expect_close("mean_rows", what, y.device(), doubles(mean), rounding_bound(dtype, c.rows));

        Twin dy = random_twin({c.batch, c.columns}, dtype, 25);
        Twin dx = Twin::output({c.batch, c.rows, c.columns}, dtype);
        auto spread = [&](Where w) {
          return SpreadMean{dtype, c.batch, c.rows, c.columns, dy.at(w), dx.at(w)};
        };
        run(cpu_queue(), spread(kOnHost));
        run(cuda_queue(), spread(kOnDevice));
        expect_close("spread_mean", what, dx.device(), doubles(dx.host()), 0);
        return std::vector{y.device(), dx.device()};
      });
    }
  }
}

TEST(CudaPointwiseRows, MeanRowsPropagatesNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  under_every_schedule([&] {
    Tensor values = as(random_tensor({2, 197, 8}, 26), DType::kFloat32);
    values.data<float>()[(197 + 190) * 8 + 3] = NAN;
    Twin x(values), y = Twin::output({2, 8}, DType::kFloat32);
    run(cuda_queue(), MeanRows{DType::kFloat32, 2, 197, 8, x.at(kOnDevice), y.at(kOnDevice)});
    Tensor got = y.device();
    for (int i = 0; i < 16; ++i) EXPECT_EQ(std::isnan(got.data<float>()[i]), i == 11) << i;
    return std::vector{got};
  });
}

TEST(CudaPointwiseRows, CopyRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  struct Case {
    std::int64_t rows, columns, x_stride, y_stride;
    std::int64_t x_offset, y_offset;
  };
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64, DType::kUInt8}) {
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    for (Case c :
         {Case{1, 1, 1, 1, 0, 0}, Case{7, 16, 16, 16, 0, 0}, Case{6, 48, 0, 197 * 48, 0, 0},
          Case{5, 24, 96, 48, 24, 8}, Case{33, 13, 17, 14, 1, 0}, Case{3, 4099, 4099, 4100, 0, 1},
          Case{9, 30, 34, 32, 2, 0}, Case{4, 20, 20, 24, 4, 4}}) {
      under_every_schedule([&] {
        Tensor from = Tensor::empty({c.x_offset + (c.rows - 1) * c.x_stride + c.columns}, dtype);
        for (std::size_t i = 0; i < from.nbytes(); ++i) {
          bytes(from.raw())[i] = static_cast<std::byte>(philox_u32({1, 2, 3}, i));
        }
        Twin x(from);
        Twin y = Twin::output({c.y_offset + (c.rows - 1) * c.y_stride + c.columns + 1}, dtype);
        auto args = [&](Where w) {
          return CopyRows{dtype,      c.rows,
                          c.columns,  bytes(x.at(w)) + c.x_offset * size,
                          c.x_stride, bytes(y.at(w)) + c.y_offset * size,
                          c.y_stride};
        };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        EXPECT_TRUE(same_bits(y.device(), y.host()))
            << name_of(dtype) << " " << c.rows << " x " << c.columns;
        return std::vector{y.device()};
      });
    }
  }
}

TEST(CudaPointwiseRows, MeanOfValues) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t count : {0, 1, 3, 8191, 8193, 100003}) {
    for (int shift : {0, 1}) {
      for (bool accumulate : {false, true}) {
        const Twin x = random_twin({count + 1}, DType::kFloat32, 27, 1, 0.5);
        under_every_schedule([&] {
          Twin y = accumulate ? Twin::accumulated({1}, DType::kFloat32, 28)
                              : Twin::output({1}, DType::kFloat32);
          double scale = 1.0 / static_cast<double>(count + 1);
          auto args = [&](Where w) {
            return Mean{DType::kFloat32, count, bytes(x.at(w)) + 4 * shift,
                        y.at(w),         scale, accumulate};
          };
          run(cpu_queue(), args(kOnHost));
          run(cuda_queue(), args(kOnDevice));
          // The sums are far more exact than the result, which may round in either direction.
          expect_close("mean", cat(count), y.device(), doubles(y.host()),
                       2 * unit_roundoff(DType::kFloat32));
          return std::vector{y.device()};
        });
      }
    }
  }
}

TEST(CudaPointwiseRows, Patchify) {
  DTN_SKIP_WITHOUT_DEVICE();
  struct Case {
    std::int64_t batch, channels, height, width, patch;
    int shift;
  };
  // Whole and partial lines, borders outside all patches, one pixel, a prime number.
  for (Case c : {Case{1, 1, 1, 1, 1, 0}, Case{2, 3, 32, 48, 16, 0}, Case{2, 3, 32, 48, 16, 1},
                 Case{1, 3, 28, 42, 14, 0}, Case{3, 1, 28, 28, 4, 0}, Case{2, 3, 15, 10, 5, 0},
                 Case{1, 2, 34, 17, 17, 0}, Case{2, 3, 20, 20, 8, 0}, Case{1, 4, 24, 40, 8, 0},
                 Case{1, 3, 19, 24, 8, 1}}) {
    for (DType dtype : kStored) {
      under_every_schedule([&] {
        const std::int64_t tokens = (c.height / c.patch) * (c.width / c.patch);
        Twin images = random_twin({c.batch, c.channels, c.height, c.width}, DType::kFloat32, 29);
        Twin patches = Twin::output({c.batch * tokens * c.channels * c.patch * c.patch + 1}, dtype);
        auto args = [&](Where w) {
          return Patchify{
              dtype,
              c.batch,
              c.channels,
              c.height,
              c.width,
              c.patch,
              images.at(w),
              bytes(patches.at(w)) + static_cast<std::size_t>(c.shift) * size_of(dtype)};
        };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        EXPECT_TRUE(same_bits(patches.device(), patches.host()))
            << c.batch << " x " << c.channels << " x " << c.height << " x " << c.width << ", patch "
            << c.patch;
        return std::vector{patches.device()};
      });
    }
  }
}

}  // namespace
}  // namespace dtn::test
