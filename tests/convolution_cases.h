// Convolutions of tokens for kernel tests, and their expected results, computed in float64 by loops
// over the formula.
#pragma once

#include "kernels/conv/convolution.h"
#include "tensors.h"

namespace dtn::test {

struct ConvolutionCase {
  const char* name;
  ConvolutionShape shape;  // for any type
};

// Returns the window of a grid, with kernel, stride and padding along height and width.
inline Window window_of(std::int64_t height, std::int64_t width, std::int64_t kernel_h,
                        std::int64_t kernel_w, std::int64_t stride_h, std::int64_t stride_w,
                        std::int64_t pad_h, std::int64_t pad_w) {
  return {height,
          width,
          (height + 2 * pad_h - kernel_h) / stride_h + 1,
          (width + 2 * pad_w - kernel_w) / stride_w + 1,
          kernel_h,
          kernel_w,
          stride_h,
          stride_w,
          pad_h,
          pad_w};
}

inline std::vector<ConvolutionCase> dense_cases() {
  const DType f = DType::kFloat32;
  return {
      {"plain", {f, window_of(5, 7, 3, 2, 1, 1, 0, 0), 2, 3, 4}},
      {"3x3", {f, window_of(12, 13, 3, 3, 1, 1, 1, 1), 1, 48, 72}},
      {"3x3 to many", {f, window_of(6, 11, 3, 3, 1, 1, 1, 1), 1, 72, 104}},
      {"3x3 by eights", {f, window_of(5, 6, 3, 3, 1, 1, 1, 1), 1, 16, 8}},
      {"3x3 of one row", {f, window_of(1, 9, 3, 3, 1, 1, 1, 1), 3, 8, 5}},
      {"strided", {f, window_of(13, 11, 3, 3, 2, 2, 1, 1), 2, 16, 24}},
      {"strided apart", {f, window_of(7, 8, 3, 3, 2, 3, 1, 2), 1, 5, 7}},
      {"stem", {f, window_of(31, 30, 7, 7, 4, 4, 3, 3), 2, 3, 33}},
      {"stem by eights", {f, window_of(15, 14, 7, 7, 2, 2, 3, 3), 2, 3, 16}},
      {"3x3 of twelve", {f, window_of(5, 6, 3, 3, 1, 1, 1, 1), 1, 12, 8}},
      {"patches", {f, window_of(8, 12, 4, 4, 4, 4, 0, 0), 3, 5, 16}},
      {"patches with a rest", {f, window_of(9, 7, 2, 2, 2, 2, 0, 0), 2, 6, 10}},
      {"pointwise", {f, window_of(6, 5, 1, 1, 1, 1, 0, 0), 2, 20, 9}},
      {"pointwise strided", {f, window_of(7, 6, 1, 1, 2, 2, 0, 0), 2, 8, 12}},
      {"pointwise padded", {f, window_of(4, 3, 1, 1, 1, 1, 1, 2), 1, 4, 6}},
      {"gaps", {f, window_of(10, 9, 2, 2, 3, 3, 0, 1), 2, 4, 6}},
      {"grouped", {f, window_of(6, 5, 3, 3, 1, 1, 1, 1), 2, 24, 48, 3}},
      {"grouped strided", {f, window_of(9, 8, 3, 3, 2, 2, 1, 1), 1, 16, 8, 4}},
      {"grouped pointwise", {f, window_of(5, 5, 1, 1, 1, 1, 0, 0), 2, 12, 18, 2}},
      {"more padding than kernel", {f, window_of(4, 5, 2, 2, 1, 1, 3, 2), 1, 2, 3}},
      {"one image, many terms", {f, window_of(9, 9, 3, 3, 1, 1, 1, 1), 1, 130, 17}},
  };
}

inline std::vector<ConvolutionCase> depthwise_cases() {
  const DType f = DType::kFloat32;
  return {
      {"3x3", {f, window_of(14, 14, 3, 3, 1, 1, 1, 1), 2, 40, 40, 40}},
      {"3x3 of one channel", {f, window_of(5, 7, 3, 3, 1, 1, 1, 1), 3, 1, 1, 1}},
      {"3x3 of one row", {f, window_of(1, 13, 3, 3, 1, 1, 1, 1), 1, 19, 19, 19}},
      {"3x3 of many channels", {f, window_of(5, 13, 3, 3, 1, 1, 1, 1), 1, 132, 132, 132}},
      {"3x3 of one column", {f, window_of(7, 1, 3, 3, 1, 1, 1, 1), 2, 8, 8, 8}},
      {"3x3 of uneven strides", {f, window_of(9, 8, 3, 3, 2, 1, 1, 1), 1, 12, 12, 12}},
      {"3x3 strided", {f, window_of(15, 12, 3, 3, 2, 2, 1, 1), 2, 33, 33, 33}},
      {"3x3 without padding", {f, window_of(9, 11, 3, 3, 1, 1, 0, 0), 1, 64, 64, 64}},
      {"7x5", {f, window_of(11, 13, 7, 5, 1, 1, 3, 2), 2, 17, 17, 17}},
      {"uneven", {f, window_of(8, 10, 2, 4, 3, 2, 1, 2), 1, 24, 24, 24}},
      {"gaps", {f, window_of(10, 9, 1, 2, 2, 3, 0, 1), 2, 5, 5, 5}},
      {"more padding than kernel", {f, window_of(3, 4, 2, 2, 1, 1, 3, 2), 1, 3, 3, 3}},
  };
}

// Inputs and results of a case in float64. Every type represents the inputs exactly.
struct ConvolutionValues {
  Tensor x, weight, bias, dy;
  Doubles y, dx, dweight, dbias;

  explicit ConvolutionValues(const ConvolutionShape& s) {
    const Window& w = s.window;
    const std::int64_t inner = s.channels / s.groups;
    auto numbers = [](const Shape& shape, std::uint32_t stream) {
      return representable(random_tensor(shape, stream));
    };
    x = numbers({s.batch, w.height * w.width, s.channels}, 1);
    weight = numbers({s.outputs, inner, w.kernel_h, w.kernel_w}, 2);
    bias = numbers({s.outputs}, 3);
    dy = numbers({s.batch, w.out_h * w.out_w, s.outputs}, 4);
    auto zeros = [](const Tensor& t) { return Doubles(static_cast<std::size_t>(t.numel())); };
    y = zeros(dy), dx = zeros(x), dweight = zeros(weight), dbias = zeros(bias);
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t i = 0; i < w.out_h; ++i) {
        for (std::int64_t j = 0; j < w.out_w; ++j) {
          for (std::int64_t o = 0; o < s.outputs; ++o) add_output(s, b, i, j, o);
        }
      }
    }
  }

 private:
  void add_output(const ConvolutionShape& s, std::int64_t b, std::int64_t i, std::int64_t j,
                  std::int64_t o) {
    const Window& w = s.window;
    const std::int64_t inner = s.channels / s.groups, group = o / (s.outputs / s.groups);
    const auto out = static_cast<std::size_t>(((b * w.out_h + i) * w.out_w + j) * s.outputs + o);
    const double d = element(dy, static_cast<std::int64_t>(out));
    dbias[static_cast<std::size_t>(o)] += d;
    y[out] = element(bias, o);
    for (std::int64_t u = 0; u < w.kernel_h; ++u) {
      for (std::int64_t v = 0; v < w.kernel_w; ++v) {
        const std::int64_t row = i * w.stride_h + u - w.pad_h, col = j * w.stride_w + v - w.pad_w;
        if (row < 0 || row >= w.height || col < 0 || col >= w.width) continue;
        for (std::int64_t c = 0; c < inner; ++c) {
          const auto in = static_cast<std::size_t>(
              ((b * w.height + row) * w.width + col) * s.channels + group * inner + c);
          const auto k =
              static_cast<std::size_t>(((o * inner + c) * w.kernel_h + u) * w.kernel_w + v);
          const double xv = x.data<double>()[in], wv = weight.data<double>()[k];
          y[out] += xv * wv;
          dx[in] += d * wv;
          dweight[k] += d * xv;
        }
      }
    }
  }
};

// Number of terms of the longest sum of each result.
inline std::int64_t terms_of_y(const ConvolutionShape& s) {
  return s.channels_of_group() * s.taps() + 1;
}
inline std::int64_t terms_of_dx(const ConvolutionShape& s) {
  return s.outputs_of_group() * s.taps();
}
inline std::int64_t terms_of_dweight(const ConvolutionShape& s) { return s.positions(); }

}  // namespace dtn::test
