// Kernels of self-distillation that go down the columns: the backward pass and the centre; see
// dino_loss.h for the formulas. A block takes 32 n columns, a lane n neighbouring ones. The warps
// share the samples, or the rows of the teacher, and their column sums are added in order. Every
// value is read once. The backward pass moves (6 + 2 L) n K sizeof(T) bytes.
#include <initializer_list>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/loss/dino_loss.h"

namespace dtn {
namespace {

constexpr int kColumnWarps = 8;
constexpr int kColumnThreads = kColumnWarps * cuda::kWarpSize;

// First column of this lane.
template <int n>
__device__ __forceinline__ std::int64_t first_column() {
  const std::int64_t lane = threadIdx.x % cuda::kWarpSize;
  return (static_cast<std::int64_t>(blockIdx.x) * cuda::kWarpSize + lane) * n;
}

// Adds the column sums of the warps and calls finish(column, sum) for each column of the block.
// `shared` holds kColumnThreads n values.
template <int n, class Finish>
__device__ __forceinline__ void add_warps(const float (&sums)[n], std::int64_t columns,
                                          float* shared, Finish&& finish) {
  constexpr int kTile = cuda::kWarpSize * n;
#pragma unroll
  for (int k = 0; k < n; ++k) shared[threadIdx.x * n + k] = sums[k];
  __syncthreads();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTile + threadIdx.x;
  if (threadIdx.x >= kTile || column >= columns) return;
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kColumnWarps; ++warp) sum += shared[warp * kTile + threadIdx.x];
  finish(column, sum);
}

// Backward pass of n columns.
template <class T, int n>
class StudentColumns {
 public:
  __device__ __forceinline__ StudentColumns(const DinoLossBackward& args, std::int64_t column)
      : outputs_(args.outputs),
        logits_(static_cast<const T*>(args.student) + column),
        gradients_(static_cast<T*>(args.dstudent) + column),
        lse_(static_cast<const float*>(args.student_lse)),
        inverse_temp_(1.0f / static_cast<float>(args.student_temp)) {
    const double terms = static_cast<double>(args.samples * args.pairs());
    factor_ = *static_cast<const float*>(args.upstream) *
              static_cast<float>(1 / (args.student_temp * terms));
    cuda::load_values(static_cast<const float*>(args.student_scale) + column, scale_);
  }

  // Rows from `row` on. target(r, k) is Q of row `row` + r; `mass` is its sum over all columns.
  template <int kRows, class Target>
  __device__ __forceinline__ void rows(std::int64_t row, float mass, Target&& target) {
    float z[kRows][n], lse[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      cuda::load_values(logits_ + (row + r) * outputs_, z[r]);
      lse[r] = lse_[row + r];
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float dz[n];
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const float p = expf(fmaf(z[r][k], scale_[k] * inverse_temp_, -lse[r]));
        const float ds = factor_ * fmaf(mass, p, -target(r, k));
        sums_[k] = fmaf(ds, z[r][k], sums_[k]);
        dz[k] = scale_[k] * ds;
      }
      cuda::store_values(gradients_ + (row + r) * outputs_, dz);
    }
  }
  __device__ __forceinline__ const float (&sums() const)[n] { return sums_; }

 private:
  std::int64_t outputs_;
  const T* logits_;
  T* gradients_;
  const float* lse_;
  float inverse_temp_, factor_;
  float scale_[n], sums_[n] = {};
};

// Softmax of the teacher in n columns.
template <class T, int n>
class TeacherColumns {
 public:
  __device__ __forceinline__ TeacherColumns(const DinoLossBackward& args, std::int64_t column)
      : outputs_(args.outputs),
        logits_(static_cast<const T*>(args.teacher) + column),
        lse_(static_cast<const float*>(args.teacher_lse)) {
    const float inverse_temp = 1.0f / static_cast<float>(*args.teacher_temp);
    cuda::load_values(static_cast<const float*>(args.teacher_scale) + column, factor_);
    cuda::load_values(static_cast<const float*>(args.center) + column, shift_);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      factor_[k] *= inverse_temp;
      shift_[k] *= -inverse_temp;
    }
  }

  // The two rows of a sample.
  __device__ __forceinline__ void load(std::int64_t sample, float (&q)[2][n]) const {
#pragma unroll
    for (int a = 0; a < 2; ++a) cuda::load_values(logits_ + (2 * sample + a) * outputs_, q[a]);
#pragma unroll
    for (int a = 0; a < 2; ++a) {
      const float lse = lse_[2 * sample + a];
#pragma unroll
      for (int k = 0; k < n; ++k) q[a][k] = expf(fmaf(q[a][k], factor_[k], shift_[k]) - lse);
    }
  }

 private:
  std::int64_t outputs_;
  const T* logits_;
  const float* lse_;
  float factor_[n], shift_[n];
};

// Blocks: columns / (32 n).
template <class T, int n>
__global__ void __launch_bounds__(kColumnThreads) dino_loss_backward_kernel(DinoLossBackward args) {
  DTN_SHARED(float, shared);
  const std::int64_t column = first_column<n>(), warp = threadIdx.x / cuda::kWarpSize;
  float sums[n] = {};
  if (column < args.outputs) {
    const TeacherColumns<T, n> teacher(args, column);
    StudentColumns<T, n> student(args, column);
    for (std::int64_t sample = warp; sample < args.samples; sample += kColumnWarps) {
      float q[2][n];
      teacher.load(sample, q);
      // A global view is compared with the other global view only.
      student.template rows<2>(2 * sample, 1.0f, [&](int r, int k) { return q[1 - r][k]; });
      const auto both = [&](int, int k) { return q[0][k] + q[1][k]; };
      std::int64_t row = args.student_row(sample, 2);
      const std::int64_t end = row + args.local_views;
      constexpr int kTogether = 4;
      for (; row + kTogether <= end; row += kTogether) {
        student.template rows<kTogether>(row, 2.0f, both);
      }
      for (; row < end; ++row) student.template rows<1>(row, 2.0f, both);
    }
#pragma unroll
    for (int k = 0; k < n; ++k) sums[k] = student.sums()[k];
  }
  add_warps(sums, args.outputs, shared,
            [&](std::int64_t c, float sum) { static_cast<float*>(args.column_sums)[c] = sum; });
}

// Blocks: columns / (32 n).
template <class T, int n>
__global__ void __launch_bounds__(kColumnThreads) dino_center_kernel(DinoCenterStep args) {
  DTN_SHARED(float, shared);
  const std::int64_t column = first_column<n>(), warp = threadIdx.x / cuda::kWarpSize;
  float sums[n] = {};
  if (column < args.outputs) {
    const T* teacher = static_cast<const T*>(args.teacher) + column;
#pragma unroll 4
    for (std::int64_t row = warp; row < args.rows; row += kColumnWarps) {
      float t[n];
      cuda::load_values(teacher + row * args.outputs, t);
#pragma unroll
      for (int k = 0; k < n; ++k) sums[k] += t[k];
    }
  }
  const float share = static_cast<float>(args.share);
  const float inverse_rows = 1.0f / static_cast<float>(args.rows);
  add_warps(sums, args.outputs, shared, [&](std::int64_t c, float sum) {
    const float mean = static_cast<const float*>(args.scale)[c] * sum * inverse_rows;
    static_cast<float*>(args.next)[c] += share * (mean - static_cast<const float*>(args.center)[c]);
  });
}

constexpr int kNeighbours = 4;  // columns of a lane

// Returns true if a lane can load kNeighbours columns at once from each of the rows.
bool has_neighbours(std::int64_t outputs, std::initializer_list<const void*> rows) {
  bool aligned = outputs % kNeighbours == 0;
  for (const void* row : rows) aligned = aligned && cuda::is_vectorizable<float>(row, kNeighbours);
  return aligned;
}

// Launches the kernel for kNeighbours columns per lane, or for one.
template <class Arguments>
void launch_columns(CudaQueue& queue, const char* name, void (*wide)(Arguments),
                    void (*narrow)(Arguments), bool is_wide, const Arguments& args) {
  const int n = is_wide ? kNeighbours : 1;
  launch(queue, {name, {args.outputs}}, is_wide ? wide : narrow,
         {blocks_for(args.outputs, cuda::kWarpSize * n), kColumnThreads,
          static_cast<std::size_t>(kColumnThreads * n) * sizeof(float)},
         args);
}

}  // namespace

void run(CudaQueue& queue, const DinoLossBackward& args) {
  const bool wide =
      has_neighbours(args.outputs, {args.student, args.teacher, args.dstudent, args.student_scale,
                                    args.teacher_scale, args.center});
  for_cuda_dtype("dino_loss_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch_columns(queue, "dino_loss_backward", dino_loss_backward_kernel<T, kNeighbours>,
                   dino_loss_backward_kernel<T, 1>, wide, args);
  });
}

void run(CudaQueue& queue, const DinoCenterStep& args) {
  const bool wide = has_neighbours(args.outputs, {args.teacher});
  for_cuda_dtype("dino_center", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch_columns(queue, "dino_center", dino_center_kernel<T, kNeighbours>,
                   dino_center_kernel<T, 1>, wide, args);
  });
}

}  // namespace dtn
