// Dynamic Token Normalization directly from its formulas (see src/kernels/dtn/dtn_norm.h and
// dtn_dense.h), with dense position matrices in float64: the oracle of the tests. It shares no code
// with src/.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace dtn::test {

using Doubles = std::vector<double>;

struct DenseDtn {
  int batch, grid_h, grid_w, channels, heads;
  double eps = 1e-5;
  bool official = false;
  Doubles x{};                          // [B, T, C]
  Doubles weight{}, bias{};             // [C]
  Doubles lambda_mean{}, lambda_var{};  // [H]
  Doubles pos_weight{};                 // [H, 3]: x, y, d
  int pool = 1;                         // T' = T / pool^2 cells
  Doubles position_table{};             // [H, T', T'] logits; replaces pos_weight unless empty
  int band = 0;                         // equal weights within (band - 1) / 2; replaces it unless 0

  struct Gradients {
    Doubles x, weight, bias, lambda_mean, lambda_var, pos_weight, position_table{};
  };

  int tokens() const { return grid_h * grid_w; }
  int cells() const { return tokens() / (pool * pool); }
  int cells_w() const { return grid_w / pool; }
  int cell_of(int t) const { return t / grid_w / pool * cells_w() + t % grid_w / pool; }
  int head_dim() const { return channels / heads; }
  std::size_t at(int b, int t, int c) const {
    return (static_cast<std::size_t>(b) * tokens() + t) * channels + c;
  }

  Doubles forward() const {
    Doubles y(x.size());
    each_head([&](int b, int h, const Moments& m) {
      for (int t = 0; t < tokens(); ++t) {
        for (int k = 0; k < head_dim(); ++k) {
          const int c = h * head_dim() + k;
          const Point p = point(m, b, h, t, k);
          y[at(b, t, c)] = weight[c] * (p.u - p.mu) * p.r + bias[c];
        }
      }
    });
    return y;
  }

  Gradients backward(const Doubles& dy) const {
    const int T = tokens(), D = head_dim();
    const double unbiased = official ? channels - 1 : channels;
    Gradients g{Doubles(x.size()),
                Doubles(weight.size()),
                Doubles(bias.size()),
                Doubles(lambda_mean.size()),
                Doubles(lambda_var.size()),
                Doubles(pos_weight.size()),
                Doubles(position_table.size())};
    const int N = cells();
    Doubles du(x.size()), dmean(size_bt()), dvar_ln(size_bt());
    each_head([&](int b, int h, const Moments& m) {
      Doubles dm1(N * D), dm2(N * D);
      for (int t = 0; t < T; ++t) {
        for (int k = 0; k < D; ++k) {
          const int c = h * D + k;
          const double lm = lambda_mean[h], lv = lambda_var[h], out = dy[at(b, t, c)];
          const Point p = point(m, b, h, t, k);
          const double dxhat = out * weight[c];
          const double dmu = -dxhat * p.r, dvar = -0.5 * dxhat * (p.u - p.mu) * p.r * p.r * p.r;
          g.weight[c] += out * (p.u - p.mu) * p.r;
          g.bias[c] += out;
          const int cell = cell_of(t) * D + k;
          g.lambda_mean[h] += dmu * (p.mu_ln - m.m1[cell]);
          g.lambda_var[h] += dvar * (p.var_ln - p.v1);
          dmean[b * T + t] += lm * dmu;
          dvar_ln[b * T + t] += lv * dvar;
          const double dv1 = (1 - lv) * dvar;
          dm1[cell] += (1 - lm) * dmu - 2 * dv1 * m.m1[cell];
          dm2[cell] += dv1;
          du[at(b, t, c)] += dxhat * p.r;
        }
      }
      Doubles dcell(N * D);  // gradient of the cells' averages
      for (int i = 0; i < N; ++i) {
        Doubles dp(N);
        double dot = 0;
        for (int j = 0; j < N; ++j) {
          const double pij = m.p[static_cast<std::size_t>(i) * N + j];
          for (int k = 0; k < D; ++k) {
            const double u = m.cells[j * D + k];
            dcell[j * D + k] += pij * (dm1[i * D + k] + 2 * u * dm2[i * D + k]);
            dp[j] += dm1[i * D + k] * u + dm2[i * D + k] * u * u;
          }
          dot += pij * dp[j];
        }
        for (int j = 0; j < N; ++j) {
          const double ds = m.p[static_cast<std::size_t>(i) * N + j] * (dp[j] - dot);
          if (!position_table.empty()) {
            g.position_table[(static_cast<std::size_t>(h) * N + i) * N + j] += ds;
            continue;
          }
          if (band) continue;
          const Offset o = offset(i, j);
          g.pos_weight[3 * h] += ds * o.x;
          g.pos_weight[3 * h + 1] += ds * o.y;
          g.pos_weight[3 * h + 2] += ds * (o.x * o.x + o.y * o.y);
        }
      }
      for (int t = 0; t < T; ++t) {
        for (int k = 0; k < D; ++k) {
          du[at(b, t, h * D + k)] += dcell[cell_of(t) * D + k] / (pool * pool);
        }
      }
    });
    each_head([&](int b, int h, const Moments& m) {
      for (int t = 0; t < T; ++t) {
        double dot = 0;
        for (int k = 0; k < D; ++k) {
          const double u = m.u[t * D + k];
          double& d = du[at(b, t, h * D + k)];
          d += dmean[b * T + t] / channels;
          d += 2 * (u - m.mean[b * T + t]) / unbiased * dvar_ln[b * T + t];
          dot += d * u;
        }
        const double s = scale(b, h, t);
        for (int k = 0; k < D; ++k) {
          const double d = du[at(b, t, h * D + k)];
          g.x[at(b, t, h * D + k)] = official ? s * (d - m.u[t * D + k] * dot / D) : d;
        }
      }
    });
    return g;
  }

  // Size of the terms of the gradient of pos_weight: the root of the sum of their squares, the
  // largest over all heads and columns. With random gradients the terms nearly cancel. Their sum
  // then says little about the accuracy that is possible, but this size does. For pool 1, the
  // gradient is a sum over the images b, tokens i and channels k of
  //    sum_j P_ij (dm1_ik u_jk + dm2_ik u_jk^2) (o_ij - sum_l P_il o_il)
  double position_terms(const Doubles& dy) const {
    const int T = tokens(), D = head_dim();
    Doubles squares(pos_weight.size());
    each_head([&](int b, int h, const Moments& m) {
      for (int i = 0; i < T; ++i) {
        const double* p = &m.p[static_cast<std::size_t>(i) * T];
        auto at_offset = [](const Offset& o, int column) {
          return column == 0 ? o.x : column == 1 ? o.y : o.x * o.x + o.y * o.y;
        };
        double mean[3] = {};
        for (int j = 0; j < T; ++j) {
          for (int a = 0; a < 3; ++a) mean[a] += p[j] * at_offset(offset(i, j), a);
        }
        for (int k = 0; k < D; ++k) {
          const int c = h * D + k;
          const Point q = point(m, b, h, i, k);
          const double dxhat = dy[at(b, i, c)] * weight[c];
          const double dvar = -0.5 * dxhat * (q.u - q.mu) * q.r * q.r * q.r;
          const double dm2 = (1 - lambda_var[h]) * dvar;
          const double dm1 = -(1 - lambda_mean[h]) * dxhat * q.r - 2 * dm2 * m.m1[i * D + k];
          double term[3] = {};
          for (int j = 0; j < T; ++j) {
            const double u = m.u[j * D + k], dp = p[j] * (dm1 * u + dm2 * u * u);
            for (int a = 0; a < 3; ++a) term[a] += dp * (at_offset(offset(i, j), a) - mean[a]);
          }
          for (int a = 0; a < 3; ++a) squares[3 * h + a] += term[a] * term[a];
        }
      }
    });
    double largest = 0;
    for (double s : squares) largest = std::fmax(largest, std::sqrt(s));
    return largest;
  }

 private:
  struct Offset {
    double x, y;
  };
  struct Moments {
    Doubles p;                  // [T', T']
    Doubles u;                  // [T, D]
    Doubles cells, m1, v1;      // [T', D]
    const Doubles &mean, &var;  // [B, T], over all channels
  };
  struct Point {
    double u, mu_ln, var_ln, v1, mu, r;
  };

  std::size_t size_bt() const { return static_cast<std::size_t>(batch) * tokens(); }

  Offset offset(int i, int j) const {       // in cells
    const double sign = official ? -1 : 1;  // query minus key
    return {sign * (j % cells_w() - i % cells_w()), sign * (j / cells_w() - i / cells_w())};
  }

  static double square(double v) { return v * v; }

  // Returns 1, or the factor by which the official code multiplies a token's head.
  double scale(int b, int h, int t) const {
    if (!official) return 1;
    double sum = 0;
    for (int k = 0; k < head_dim(); ++k) sum += square(x[at(b, t, h * head_dim() + k)]);
    return 1 / std::sqrt(sum / head_dim() + eps);
  }

  // Returns the sum of term(u) over the channels of a token.
  template <class Term>
  double sum_of_channels(int b, int t, Term&& term) const {
    double sum = 0;
    for (int h = 0; h < heads; ++h) {
      const double s = scale(b, h, t);
      for (int k = 0; k < head_dim(); ++k) sum += term(x[at(b, t, h * head_dim() + k)] * s);
    }
    return sum;
  }
  double token_mean(int b, int t) const {
    return sum_of_channels(b, t, [](double u) { return u; }) / channels;
  }
  double token_var(int b, int t) const {
    const double mean = token_mean(b, t);
    return sum_of_channels(b, t, [&](double u) { return square(u - mean); }) /
           (official ? channels - 1 : channels);
  }

  double score(int h, int i, int j) const {
    if (!position_table.empty()) {
      return position_table[(static_cast<std::size_t>(h) * cells() + i) * cells() + j];
    }
    if (band) return std::abs(i - j) <= (band - 1) / 2 ? 0 : -INFINITY;
    const double* a = &pos_weight[3 * h];
    const Offset o = offset(i, j);
    return a[2] * (o.x * o.x + o.y * o.y) + a[0] * o.x + a[1] * o.y;
  }

  Doubles positions(int h) const {
    const int N = cells();
    Doubles p(static_cast<std::size_t>(N) * N);
    for (int i = 0; i < N; ++i) {
      double* row = &p[static_cast<std::size_t>(i) * N];
      double largest = -INFINITY, sum = 0;
      for (int j = 0; j < N; ++j) largest = std::fmax(largest, row[j] = score(h, i, j));
      for (int j = 0; j < N; ++j) sum += row[j] = std::exp(row[j] - largest);
      for (int j = 0; j < N; ++j) row[j] /= sum;
    }
    return p;
  }

  // Calls f(b, h, moments) for every head of every image.
  template <class F>
  void each_head(F&& f) const {
    const int T = tokens(), D = head_dim(), N = cells();
    Doubles mean(size_bt()), var(size_bt());
    for (int b = 0; b < batch; ++b) {
      for (int t = 0; t < T; ++t) {
        mean[b * T + t] = token_mean(b, t);
        var[b * T + t] = token_var(b, t);
      }
    }
    for (int h = 0; h < heads; ++h) {
      Moments m{positions(h), Doubles(T * D), Doubles(N * D), Doubles(N * D), Doubles(N * D), mean,
                var};
      for (int b = 0; b < batch; ++b) {
        for (int t = 0; t < T; ++t) {
          const double s = scale(b, h, t);
          for (int k = 0; k < D; ++k) m.u[t * D + k] = s * x[at(b, t, h * D + k)];
        }
        m.cells.assign(N * D, 0);
        for (int t = 0; t < T; ++t) {
          for (int k = 0; k < D; ++k) m.cells[cell_of(t) * D + k] += m.u[t * D + k] / (pool * pool);
        }
        // The variance around the local mean equals m2 - m1^2, because the rows of P sum to 1, but
        // avoids its cancellation.
        for (int i = 0; i < N; ++i) {
          const double* p = &m.p[static_cast<std::size_t>(i) * N];
          for (int k = 0; k < D; ++k) {
            double m1 = 0, v1 = 0;
            for (int j = 0; j < N; ++j) m1 += p[j] * m.cells[j * D + k];
            for (int j = 0; j < N; ++j) v1 += p[j] * square(m.cells[j * D + k] - m1);
            m.m1[i * D + k] = m1;
            m.v1[i * D + k] = v1;
          }
        }
        f(b, h, m);
      }
    }
  }

  Point point(const Moments& m, int b, int h, int t, int k) const {
    const int D = head_dim(), T = tokens();
    Point p;
    p.u = m.u[t * D + k];
    p.mu_ln = m.mean[b * T + t];
    p.var_ln = m.var[b * T + t];
    const int cell = cell_of(t) * D + k;
    p.v1 = m.v1[cell];
    p.mu = lambda_mean[h] * p.mu_ln + (1 - lambda_mean[h]) * m.m1[cell];
    const double var = lambda_var[h] * p.var_ln + (1 - lambda_var[h]) * p.v1;
    p.r = 1 / std::sqrt(var + eps);
    return p;
  }
};

}  // namespace dtn::test
