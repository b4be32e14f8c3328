#include "kernels/pointwise/pointwise.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

constexpr DType kStored[] = {DType::kFloat32, DType::kBFloat16};

// Returns the address `elements` after p, which is not a multiple of 16 bytes.
template <class P>
P* shifted(P* p, DType dtype, std::int64_t elements) {
  using Byte = std::conditional_t<std::is_const_v<P>, const std::byte, std::byte>;
  return static_cast<Byte*>(p) + elements * static_cast<std::int64_t>(size_of(dtype));
}

// Expects the same bits on both sides, because both compute in the same order.
void expect_same_bits(const char* kernel, const std::string& what, const Twin& y) {
  Tensor device = y.device();
  EXPECT_TRUE(same_bits(device, y.host())) << kernel << ": " << what;
  record_error(kernel, what, device.dtype(), relative_error(doubles(device), doubles(y.host())), 0);
}

TEST(CudaPointwise, Add) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kStored) {
    for (std::int64_t count : {1, 7, 8, 4099, 16 * 196 * 24}) {
      under_every_schedule([&] {
        Twin a = random_twin({count}, dtype, 1), b = random_twin({count}, dtype, 2);
        Twin y = Twin::output({count}, dtype);
        auto args = [&](Where w) { return Add{dtype, count, a.at(w), b.at(w), y.at(w)}; };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        expect_same_bits("add", cat(count), y);
        return std::vector{y.device()};
      });
    }
  }
}

TEST(CudaPointwise, AddOfSlicesAndInPlace) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t count = 5003;
  for (DType dtype : kStored) {
    for (bool in_place : {false, true}) {
      under_every_schedule([&] {
        Twin a = random_twin({count + 8}, dtype, 1), b = random_twin({count + 8}, dtype, 2);
        Twin y = in_place ? a : Twin::output({count + 8}, dtype);
        auto args = [&](Where w) {
          return Add{dtype, count, shifted(a.at(w), dtype, 1), shifted(b.at(w), dtype, 3),
                     shifted(y.at(w), dtype, 1)};
        };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        expect_same_bits("add", "slices", y);
        return std::vector{y.device()};
      });
    }
  }
}

// Every bfloat16 number, the midpoint to the next number, and a value just above the midpoint.
TEST(CudaPointwise, CastRoundsToNearestEvenAndKeepsNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t count = 3 * 65536 + 5;
  Tensor floats = Tensor::zeros({count}, DType::kFloat32);
  for (std::uint32_t i = 0; i < 3 * 65536; ++i) {
    const std::uint32_t low[] = {0, 0x8000, 0x8001};
    floats.data<float>()[i] = std::bit_cast<float>((i / 3) << 16 | low[i % 3]);
  }
  under_every_schedule([&] {
    Twin x(floats), h = Twin::output({count}, DType::kBFloat16),
                    back = Twin::output({count}, DType::kFloat32);
    run(cuda_queue(),
        Cast{DType::kFloat32, DType::kBFloat16, count, x.at(kOnDevice), h.at(kOnDevice)});
    run(cuda_queue(),
        Cast{DType::kBFloat16, DType::kFloat32, count, h.at(kOnDevice), back.at(kOnDevice)});
    Tensor rounded = h.device(), widened = back.device();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const float from = floats.data<float>()[i], to = widened.data<float>()[i];
      const bfloat16 want(from), got = rounded.data<bfloat16>()[i];
      wrong += std::isnan(from) ? !std::isnan(static_cast<float>(got)) : got.bits != want.bits;
      wrong += std::isnan(from) ? !std::isnan(to)
                                : std::bit_cast<std::uint32_t>(to) != std::uint32_t{got.bits} << 16;
    }
    EXPECT_EQ(wrong, 0);
    return std::vector{rounded, widened};
  });
}

TEST(CudaPointwise, CastMatchesHostForEveryTypePair) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType from : kStored) {
    for (DType to : kStored) {
      for (std::int64_t count : {1, 3, 8, 4099, 70000}) {
        for (int shift : {0, 1}) {
          under_every_schedule([&] {
            Twin x = random_twin({count + 1}, from, 3), y = Twin::output({count + 1}, to);
            auto args = [&](Where w) {
              return Cast{from, to, count, shifted(x.at(w), from, shift),
                          shifted(y.at(w), to, shift)};
            };
            run(cpu_queue(), args(kOnHost));
            run(cuda_queue(), args(kOnDevice));
            expect_same_bits("cast", cat(name_of(from), " ", name_of(to), " ", count), y);
            return std::vector{y.device()};
          });
        }
      }
    }
  }
}

TEST(CudaPointwise, ScaleRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  struct Case {
    std::int64_t rows, per_scale;
    int shift;
  };
  for (DType dtype : kStored) {
    for (Case c : {Case{1, 1, 0}, Case{17, 1, 0}, Case{3, 7, 0}, Case{5, 196 * 8, 0},
                   Case{5, 196 * 8, 1}, Case{4, 197 * 13, 0}, Case{1, 20011, 0}}) {
      for (bool residual : {false, true}) {
        under_every_schedule([&] {
          const std::int64_t count = c.rows * c.per_scale;
          Twin scale = random_twin({c.rows}, DType::kFloat32, 4);
          Twin x = random_twin({count + 1}, dtype, 5), y = Twin::output({count + 1}, dtype);
          Twin r = residual ? random_twin({count + 1}, dtype, 6) : Twin();
          auto args = [&](Where w) {
            return ScaleRows{dtype,
                             count,
                             c.per_scale,
                             scale.at(w),
                             shifted(x.at(w), dtype, c.shift),
                             residual ? shifted(r.at(w), dtype, c.shift) : nullptr,
                             shifted(y.at(w), dtype, c.shift)};
          };
          run(cpu_queue(), args(kOnHost));
          run(cuda_queue(), args(kOnDevice));
          expect_close("scale_rows", cat(c.rows, " x ", c.per_scale), y.device(), doubles(y.host()),
                       rounding_bound(dtype, 1));
          return std::vector{y.device()};
        });
      }
    }
  }
}

TEST(CudaPointwise, ScaleRowsInPlacePropagatesNaNThroughZeroScale) {
  DTN_SKIP_WITHOUT_DEVICE();
  under_every_schedule([&] {
    Twin scale(Tensor::zeros({2}, DType::kFloat32));
    Tensor values = as(random_tensor({2 * 64}, 7), DType::kFloat32);
    values.data<float>()[70] = NAN;
    Twin x(values);
    run(cuda_queue(), ScaleRows{DType::kFloat32, 128, 64, scale.at(kOnDevice), x.at(kOnDevice),
                                nullptr, x.at(kOnDevice)});
    Tensor y = x.device();
    for (int i = 0; i < 128; ++i) {
      EXPECT_TRUE(i == 70 ? std::isnan(y.data<float>()[i]) : y.data<float>()[i] == 0) << i;
    }
    return std::vector{y};
  });
}

TEST(CudaPointwise, AddToRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  struct Case {
    std::int64_t rows, columns;
    int shift;
  };
  for (DType dtype : kStored) {
    for (Case c : {Case{1, 1, 0}, Case{5, 1, 0}, Case{7, 16, 0}, Case{197, 24, 0}, Case{197, 24, 1},
                   Case{33, 433, 0}, Case{3, 196 * 24, 0}}) {
      under_every_schedule([&] {
        const std::int64_t count = c.rows * c.columns;
        Twin x = random_twin({count + 1}, dtype, 8), y = Twin::output({count + 1}, dtype);
        Twin addend = random_twin({c.columns}, DType::kFloat32, 9, 1, 1000);
        auto args = [&](Where w) {
          return AddToRows{dtype,        c.rows,
                           c.columns,    shifted(x.at(w), dtype, c.shift),
                           addend.at(w), shifted(y.at(w), dtype, c.shift)};
        };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        expect_same_bits("add_to_rows", cat(c.rows, " x ", c.columns), y);
        return std::vector{y.device()};
      });
    }
  }
}

Tensor step_in_memory(std::uint32_t step) {
  Tensor t = Tensor::empty({sizeof step}, DType::kUInt8);
  std::memcpy(t.raw(), &step, sizeof step);
  return t;
}

TEST(CudaPointwise, DropoutMatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  const PhiloxKey key{0x123456789abcdef0u, 77, 5};
  for (DType dtype : kStored) {
    for (std::int64_t count : {1, 7, 8, 6007}) {
      for (std::uint64_t first : {0ull, 1ull, 12ull, (1ull << 34) - 3, (1ull << 34) - 4}) {
        for (double p : {0.0, 0.1, 1.0 / 3, 1.0}) {
          if (count == 6007 && p != 0.1) continue;
          under_every_schedule([&] {
            Twin x = random_twin({count}, dtype, 10), y = Twin::output({count}, dtype);
            auto args = [&](Where w) {
              return ElementDropout{dtype, count, p, key, first, x.at(w), y.at(w)};
            };
            run(cpu_queue(), args(kOnHost));
            run(cuda_queue(), args(kOnDevice));
            expect_same_bits("dropout", cat(count, " from ", first, ", p ", p), y);
            return std::vector{y.device()};
          });
        }
      }
    }
  }
}

TEST(CudaPointwise, DropoutInPlaceOfSliceReadsStepOnDevice) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t count = 999;
  for (DType dtype : kStored) {
    under_every_schedule([&] {
      Tensor values = as(random_tensor({count + 1}, 11), dtype);
      for (int i : {3, 4, 5, 6, 7, 8})
        assign(values.slice(i, i + 1), from_doubles({NAN}, {1}, dtype));
      Twin x(values), plain(values), step(step_in_memory(41));
      PhiloxKey key{9, 8, 7};
      auto args = [&](Where w) {
        void* p = shifted(x.at(w), dtype, 1);
        return ElementDropout{dtype, count, 0.5, key,
                              2,     p,     p,   static_cast<std::uint32_t*>(step.at(w))};
      };
      run(cpu_queue(), args(kOnHost));
      run(cuda_queue(), args(kOnDevice));
      expect_same_bits("dropout", "in place", x);
      key.step = 41;
      void* p = shifted(plain.at(kOnDevice), dtype, 1);
      run(cuda_queue(), ElementDropout{dtype, count, 0.5, key, 2, p, p});
      EXPECT_TRUE(same_bits(plain.device(), x.device()));
      return std::vector{x.device()};
    });
  }
}

Tensor places(const std::vector<std::int64_t>& rows) {
  return Tensor::from(rows, {static_cast<std::int64_t>(rows.size())});
}

// Includes rows whose element indices need more than 32 bits.
TEST(CudaPointwise, RowDropoutMatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kStored) {
    for (std::int64_t per_row : {1, 3, 4, 8, 520}) {
      for (std::int64_t begin : {std::int64_t{0}, std::int64_t{1} << 33}) {
        under_every_schedule([&] {
          const std::int64_t count = 5 * per_row;
          Twin x = random_twin({count}, dtype, 16), y = Twin::output({count}, dtype);
          Twin rows(places({begin + 1, begin + 4, begin + 5, begin + 6, begin + 10}));
          auto args = [&](Where w) {
            return ElementDropout{dtype,     count,   0.4,
                                  {7, 8, 9}, 99,      x.at(w),
                                  y.at(w),   nullptr, static_cast<std::int64_t*>(rows.at(w)),
                                  per_row};
          };
          run(cpu_queue(), args(kOnHost));
          run(cuda_queue(), args(kOnDevice));
          expect_same_bits("dropout", cat("rows of ", per_row, " from ", begin), y);
          return std::vector{y.device()};
        });
      }
    }
  }
}

TEST(CudaPointwise, RowDropPathScales) {
  DTN_SKIP_WITHOUT_DEVICE();
  std::vector<std::int64_t> own;
  for (std::int64_t i = 0; i < 301; ++i) own.push_back(3 * i * i + 1);
  under_every_schedule([&] {
    Twin scale = Twin::output({301}, DType::kFloat32), rows(places(own));
    auto args = [&](Where w) {
      return DropPathScales{DType::kFloat32,
                            301,
                            0.4,
                            {7, 8, 9},
                            5,
                            scale.at(w),
                            nullptr,
                            static_cast<std::int64_t*>(rows.at(w))};
    };
    run(cpu_queue(), args(kOnHost));
    run(cuda_queue(), args(kOnDevice));
    expect_same_bits("drop_path_scales", "rows", scale);
    return std::vector{scale.device()};
  });
}

TEST(CudaPointwise, DropPathScales) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t count : {1, 256, 301}) {
    for (double p : {0.0, 0.2, 1.0}) {
      under_every_schedule([&] {
        Twin scale = Twin::output({count}, DType::kFloat32), step(step_in_memory(3));
        auto args = [&](Where w) {
          return DropPathScales{DType::kFloat32,
                                count,
                                p,
                                {7, 8, 9},
                                5,
                                scale.at(w),
                                count == 301 ? static_cast<std::uint32_t*>(step.at(w)) : nullptr};
        };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        expect_same_bits("drop_path_scales", cat(count, ", p ", p), scale);
        return std::vector{scale.device()};
      });
    }
  }
}

TEST(CudaPointwise, Sigmoid) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t count : {1, 9, 24, 1003}) {
    under_every_schedule([&] {
      Tensor values = as(random_tensor({count}, 12, 6), DType::kFloat32);
      if (count > 8) {
        const float special[] = {200, -200, INFINITY, -INFINITY, NAN, -0.0f};
        std::copy(std::begin(special), std::end(special), values.data<float>() + 1);
      }
      Twin x(values), y = Twin::output({count}, DType::kFloat32);
      run(cuda_queue(), Sigmoid{DType::kFloat32, count, x.at(kOnDevice), y.at(kOnDevice)});
      Tensor oracle = Tensor::empty({count}, DType::kFloat64), x64 = as(values, DType::kFloat64);
      run(cpu_queue(), Sigmoid{DType::kFloat64, count, x64.raw(), oracle.raw()});
      // exp errs by one ulp; its sum with 1 and the quotient err by half an ulp each.
      expect_close("sigmoid", cat(count), y.device(), doubles(oracle),
                   4 * unit_roundoff(DType::kFloat32), 1);
      return std::vector{y.device()};
    });
  }
}

TEST(CudaPointwise, EmptyInputIsNoOp) {
  DTN_SKIP_WITHOUT_DEVICE();
  CudaQueue& queue = cuda_queue();
  const DType f = DType::kFloat32;
  run(queue, Cast{f, DType::kBFloat16, 0, nullptr, nullptr});
  run(queue, Cast{f, f, 0, nullptr, nullptr});
  run(queue, Add{f, 0, nullptr, nullptr, nullptr});
  run(queue, ScaleRows{f, 0, 4, nullptr, nullptr, nullptr, nullptr});
  run(queue, ElementDropout{f, 0, 0.5, {}, 0, nullptr, nullptr});
  run(queue, DropPathScales{f, 0, 0.5, {}, 0, nullptr});
  run(queue, Patchify{f, 0, 3, 32, 32, 16, nullptr, nullptr});
  run(queue, SumRows{f, 0, 3, nullptr, nullptr});
  run(queue, AddToRows{f, 3, 0, nullptr, nullptr, nullptr});
  run(queue, CopyRows{f, 0, 4, nullptr, 4, nullptr, 4});
  run(queue, MeanRows{f, 0, 4, 4, nullptr, nullptr});
  run(queue, SpreadMean{f, 0, 4, 4, nullptr, nullptr});
  run(queue, Sigmoid{f, 0, nullptr, nullptr});
}

TEST(CudaPointwise, RejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  CudaQueue& queue = cuda_queue();
  const DType d = DType::kFloat64;
  double x = 0;
  EXPECT_THROW(run(queue, Cast{d, DType::kFloat32, 1, &x, &x}), Error);
  EXPECT_THROW(run(queue, Cast{DType::kFloat32, d, 1, &x, &x}), Error);
  EXPECT_THROW(run(queue, Add{d, 1, &x, &x, &x}), Error);
  EXPECT_THROW(run(queue, ElementDropout{d, 1, 0.5, {}, 0, &x, &x}), Error);
  EXPECT_THROW(run(queue, DropPathScales{d, 1, 0.5, {}, 0, &x}), Error);
  EXPECT_THROW(run(queue, SumRows{d, 1, 1, &x, &x}), Error);
  EXPECT_THROW(run(queue, Mean{d, 1, &x, &x, 1}), Error);
  EXPECT_THROW(run(queue, Sigmoid{d, 1, &x, &x}), Error);
  EXPECT_THROW(run(queue, Sigmoid{DType::kBFloat16, 1, &x, &x}), Error);
}

}  // namespace
}  // namespace dtn::test
