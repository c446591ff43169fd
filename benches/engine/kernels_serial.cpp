// The same mathematics as kernels.cu in plain serial loops.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" void serial_llmc_layernorm_forward(const float* const* in, float* const* out, int R, int C) {
    const float *w = in[1], *b = in[2];
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        float* o = out[0] + (size_t)r * C;
        float sum = 0;
        for (int i = 0; i < C; i++) sum += x[i];
        const float m = sum / C;
        float var = 0;
        for (int i = 0; i < C; i++) var += (x[i] - m) * (x[i] - m);
        const float s = 1.0f / std::sqrt(var / C + 1e-5f);
        for (int i = 0; i < C; i++) o[i] = s * (x[i] - m) * w[i] + b[i];
        out[1][r] = m;
        out[2][r] = s;
    }
}

extern "C" void serial_llmc_layernorm_backward(const float* const* in, float* const* out, int R, int C) {
    const float *w = in[2], *mean = in[3], *rstd = in[4];
    float *dw = out[1], *db = out[2];
    for (int r = 0; r < R; r++) {
        const float *dy = in[0] + (size_t)r * C, *x = in[1] + (size_t)r * C;
        float* dx = out[0] + (size_t)r * C;
        const float m = mean[r], s = rstd[r];
        float a = 0, b = 0;
        for (int i = 0; i < C; i++) {
            const float d = w[i] * dy[i];
            a += d;
            b += d * ((x[i] - m) * s);
        }
        a /= C;
        b /= C;
        for (int i = 0; i < C; i++) {
            const float n = (x[i] - m) * s;
            db[i] += dy[i];
            dw[i] += n * dy[i];
            dx[i] = (w[i] * dy[i] - a - n * b) * s;
        }
    }
}

extern "C" void serial_llmc_softmax_online(const float* const* in, float* const* out, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        float* o = out[0] + (size_t)r * C;
        float m = -INFINITY, sum = 0;
        for (int i = 0; i < C; i++) {
            if (x[i] > m) {
                sum *= std::exp(m - x[i]);
                m = x[i];
            }
            sum += std::exp(x[i] - m);
        }
        for (int i = 0; i < C; i++) o[i] = std::exp(x[i] - m) / sum;
    }
}

extern "C" void serial_llmc_fused_classifier(const float* const* in, float* const* out, int R, int C) {
    const int* targets = (const int*)in[1];
    const float dloss = 1.0f / R;
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        float* d = out[0] + (size_t)r * C;
        float m = -INFINITY, sum = 0;
        for (int i = 0; i < C; i++) m = std::max(m, x[i]);
        for (int i = 0; i < C; i++) sum += std::exp(x[i] - m);
        const float scale = 1.0f / sum;
        for (int i = 0; i < C; i++) d[i] = std::exp(x[i] - m) * scale * dloss;
        const int t = targets[r];
        const float p = std::exp(x[t] - m) * scale;
        d[t] = (p - 1.0f) * dloss;
        out[1][r] = -std::log(p);
    }
}

extern "C" void serial_llmc_gelu(const float* const* in, float* const* out, int R, int C) {
    const size_t n = (size_t)R * C;
    const float k = std::sqrt(2.0f / (float)M_PI);
    for (size_t i = 0; i < n; i++) {
        const float x = in[0][i];
        out[0][i] = 0.5f * x * (1.0f + std::tanh(k * (x + 0.044715f * x * x * x)));
    }
    for (size_t i = 0; i < n; i++) {
        const float x = in[0][i];
        const float a = k * (x + 0.044715f * x * x * x);
        const float t = std::tanh(a), c = std::cosh(a);
        const float g = 0.5f * (1.0f + t) + x * 0.5f * (1.0f / (c * c)) * k * (1.0f + 3.0f * 0.044715f * x * x);
        out[1][i] = g * in[1][i];
    }
}

extern "C" void serial_llmc_encoder_forward(const float* const* in, float* const* out, int R, int C) {
    const int* tokens = (const int*)in[0];
    for (int r = 0; r < R; r++) {
        const float* e = in[1] + (size_t)tokens[r] * C;
        const float* p = in[2] + (size_t)(r % 64) * C;
        float* o = out[0] + (size_t)r * C;
        for (int i = 0; i < C; i++) o[i] = e[i] + p[i];
    }
}

extern "C" void serial_llmc_encoder_backward(const float* const* in, float* const* out, int R, int C) {
    const int* tokens = (const int*)in[1];
    for (int r = 0; r < R; r++) {
        const float* d = in[0] + (size_t)r * C;
        float* e = out[0] + (size_t)tokens[r] * C;
        float* p = out[1] + (size_t)(r % 64) * C;
        for (int i = 0; i < C; i++) {
            e[i] += d[i];
            p[i] += d[i];
        }
    }
}

extern "C" void serial_llmc_bias_backward(const float* const* in, float* const* out, int R, int C) {
    float* db = out[0];
    for (int r = 0; r < R; r++) {
        const float* d = in[0] + (size_t)r * C;
        for (int i = 0; i < C; i++) db[i] += d[i];
    }
}

extern "C" void serial_llmc_adamw(const float* const* in, float* const* out, int R, int C) {
    const size_t n = (size_t)R * C;
    const float b1 = 0.9f, b2 = 0.999f, lr = 1e-3f, eps = 1e-8f, wd = 0.01f;
    const float c1 = 1.0f - std::pow(b1, 10.0f), c2 = 1.0f - std::pow(b2, 10.0f);
    std::memcpy(out[0], in[0], n * sizeof(float));
    std::memcpy(out[1], in[2], n * sizeof(float));
    std::memcpy(out[2], in[3], n * sizeof(float));
    float *p = out[0], *ms = out[1], *vs = out[2];
    const float* gs = in[1];
    for (size_t i = 0; i < n; i++) {
        const float g = gs[i];
        const float m = ms[i] = g + b1 * (ms[i] - g);
        const float v = vs[i] = g * g + b2 * (vs[i] - g * g);
        p[i] -= lr * (m / c1 / (std::sqrt(v / c2) + eps) + wd * p[i]);
    }
}

extern "C" void serial_llmc_global_norm(const float* const* in, float* const* out, int R, int C) {
    // per row first, so that float does not lose too much
    float total = 0;
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        float sum = 0;
        for (int i = 0; i < C; i++) sum += x[i] * x[i];
        total += sum;
    }
    out[0][0] += total;
}

extern "C" void serial_llmc_attention_naive(const float* const* in, float* const* out, int R, int C) {
    const int T = 128, HS = 64, B = R / T, NH = C / HS;
    const float scale = 1.0f / std::sqrt((float)HS);
    for (int b = 0; b < B; b++) {
        for (int h = 0; h < NH; h++) {
            for (int t = 0; t < T; t++) {
                const float* base = in[0] + (size_t)b * T * 3 * C + h * HS;
                const float* q = base + (size_t)t * 3 * C;
                float* att = out[1] + (((size_t)b * NH + h) * T + t) * T;
                float* o = out[0] + ((size_t)b * T + t) * C + h * HS;
                float m = -10000.0f, sum = 0;
                for (int u = 0; u <= t; u++) {
                    const float* k = base + (size_t)u * 3 * C + C;
                    float v = 0;
                    for (int i = 0; i < HS; i++) v += q[i] * k[i];
                    att[u] = v * scale;
                    m = std::max(m, att[u]);
                }
                for (int u = 0; u <= t; u++) {
                    att[u] = std::exp(att[u] - m);
                    sum += att[u];
                }
                const float inverse = sum == 0 ? 0 : 1.0f / sum;
                for (int u = 0; u <= t; u++) att[u] *= inverse;
                for (int u = t + 1; u < T; u++) att[u] = 0;
                for (int i = 0; i < HS; i++) o[i] = 0;
                for (int u = 0; u <= t; u++) {
                    const float* v = base + (size_t)u * 3 * C + 2 * C;
                    for (int i = 0; i < HS; i++) o[i] += att[u] * v[i];
                }
            }
        }
    }
}

extern "C" void serial_vllm_rms_norm(const float* const* in, float* const* out, int R, int C) {
    const float* w = in[1];
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        float* o = out[0] + (size_t)r * C;
        float sum = 0;
        for (int i = 0; i < C; i++) sum += x[i] * x[i];
        const float s = 1.0f / std::sqrt(sum / C + 1e-6f);
        for (int i = 0; i < C; i++) o[i] = x[i] * s * w[i];
    }
}

static void rotate(const int* positions, const float* x, const float* cache, float* o, int R, int C, bool backward) {
    for (int r = 0; r < R; r++) {
        const float *cosines = cache + (size_t)positions[r] * 64, *sines = cosines + 32;
        for (int h = 0; h < C / 64; h++) {
            const float* a = x + (size_t)r * C + h * 64;
            float* b = o + (size_t)r * C + h * 64;
            for (int i = 0; i < 32; i++) {
                const float c = cosines[i], s = backward ? -sines[i] : sines[i];
                b[i] = a[i] * c - a[i + 32] * s;
                b[i + 32] = a[i + 32] * c + a[i] * s;
            }
        }
    }
}

extern "C" void serial_vllm_rotary_forward_backward(const float* const* in, float* const* out, int R, int C) {
    rotate((const int*)in[0], in[1], in[3], out[0], R, C, false);
    rotate((const int*)in[0], in[2], in[3], out[1], R, C, true);
}

extern "C" void serial_vllm_silu_and_mul(const float* const* in, float* const* out, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float *x = in[0] + (size_t)r * 2 * C, *y = x + C;
        float* o = out[0] + (size_t)r * C;
        for (int i = 0; i < C; i++) o[i] = x[i] / (1.0f + std::exp(-x[i])) * y[i];
    }
}

extern "C" void serial_apex_layer_norm(const float* const* in, float* const* out, int R, int C) {
    serial_llmc_layernorm_forward(in, out, R, C);
}

extern "C" void serial_apex_batchnorm_stats_c_last(const float* const* in, float* const* out, int R, int C) {
    // Welford over rows, all columns at once
    float *mean = out[0], *m2 = out[1];
    for (int i = 0; i < C; i++) mean[i] = m2[i] = 0;
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        const float inverse = 1.0f / (r + 1);
        for (int i = 0; i < C; i++) {
            const float d = x[i] - mean[i];
            mean[i] += d * inverse;
            m2[i] += d * (x[i] - mean[i]);
        }
    }
    for (int i = 0; i < C; i++) m2[i] /= R;
}

extern "C" void serial_megatron_scaled_masked_softmax(const float* const* in, float* const* out, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        const int* mask = (const int*)in[1] + (size_t)r * C;
        float* o = out[0] + (size_t)r * C;
        float m = -INFINITY, sum = 0;
        for (int i = 0; i < C; i++) {
            o[i] = mask[i] != 1 ? x[i] * 0.5f : -10000.0f;
            m = std::max(m, o[i]);
        }
        for (int i = 0; i < C; i++) {
            o[i] = std::exp(o[i] - m);
            sum += o[i];
        }
        for (int i = 0; i < C; i++) o[i] /= sum;
    }
}

extern "C" void serial_megatron_causal_softmax_backward(const float* const* in, float* const* out, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float *g = in[0] + (size_t)r * C, *y = in[1] + (size_t)r * C;
        float* d = out[0] + (size_t)r * C;
        const int n = r % C + 1;
        float sum = 0;
        for (int i = 0; i < n; i++) sum += g[i] * y[i];
        for (int i = 0; i < n; i++) d[i] = 0.5f * (g[i] * y[i] - y[i] * sum);
        for (int i = n; i < C; i++) d[i] = 0;
    }
}

extern "C" void serial_flash_attention_minimal(const float* const* in, float* const* out, int R, int C) {
    const int N = 256;
    const float scale = (float)(1.0 / std::sqrt((double)C));
    float p[N];
    for (int r = 0; r < R; r++) {
        const size_t head = (size_t)(r / N) * N * C;
        const float *q = in[0] + (size_t)r * C, *K = in[1] + head, *V = in[2] + head;
        float* o = out[0] + (size_t)r * C;
        float m = -INFINITY, sum = 0;
        for (int j = 0; j < N; j++) {
            float s = 0;
            for (int i = 0; i < C; i++) s += q[i] * K[j * C + i];
            p[j] = s * scale;
            m = std::max(m, p[j]);
        }
        for (int j = 0; j < N; j++) {
            p[j] = std::exp(p[j] - m);
            sum += p[j];
        }
        for (int i = 0; i < C; i++) o[i] = 0;
        for (int j = 0; j < N; j++)
            for (int i = 0; i < C; i++) o[i] += p[j] * V[j * C + i];
        for (int i = 0; i < C; i++) o[i] /= sum;
        out[1][r] = sum;
        out[2][r] = m;
    }
}

extern "C" void serial_mamba_selective_scan(const float* const* in, float* const* out, int R, int L) {
    const int dim = 64, N = 16;
    for (int r = 0; r < R; r++) {
        const int b = r / dim, d = r % dim;
        const float *u = in[0] + (size_t)r * L, *delta = in[1] + (size_t)r * L;
        float* o = out[0] + (size_t)r * L;
        float a[N], h[N];
        for (int n = 0; n < N; n++) {
            a[n] = -std::exp(in[2][d * N + n]) * (float)M_LOG2E;
            h[n] = 0;
        }
        const float *B = in[3] + (size_t)b * N * L, *Cs = in[4] + (size_t)b * N * L;
        for (int t = 0; t < L; t++) {
            const float dt = delta[t] <= 20.0f ? std::log1p(std::exp(delta[t])) : delta[t];
            float y = in[5][d] * u[t];
            for (int n = 0; n < N; n++) {
                h[n] = std::exp2(dt * a[n]) * h[n] + B[(size_t)n * L + t] * (dt * u[t]);
                y += h[n] * Cs[(size_t)n * L + t];
            }
            o[t] = y;
        }
    }
}

extern "C" void serial_mamba_causal_conv1d(const float* const* in, float* const* out, int R, int L) {
    const int dim = 64;
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * L;
        const float* w = in[1] + (r % dim) * 4;
        const float bias = in[2][r % dim];
        float* o = out[0] + (size_t)r * L;
        for (int t = 0; t < L; t++) {
            float v = bias;
            for (int k = 0; k < 4; k++)
                if (t - 3 + k >= 0) v += w[k] * x[t - 3 + k];
            o[t] = v / (1.0f + std::exp(-v));
        }
    }
}

extern "C" void serial_gsplat_rasterize(const float* const* in, float* const* out, int H, int W) {
    const int P = 1024, per_tile = 128, tiles = (W + 15) / 16;
    struct Splat {
        float x, y, a, b, c, opacity;
    };
    std::vector<Splat> splats(P);
    for (int i = 0; i < P; i++) {
        const float sx = 12.0f * std::exp(0.3f * in[1][2 * i]), sy = 12.0f * std::exp(0.3f * in[1][2 * i + 1]);
        const float s = std::sin(in[2][i]), c = std::cos(in[2][i]);
        const float xx = c * c * sx * sx + s * s * sy * sy, xy = c * s * (sx * sx - sy * sy), yy = s * s * sx * sx + c * c * sy * sy;
        const float inverse = 1.0f / (xx * yy - xy * xy);
        splats[i] = {in[0][2 * i] * W, in[0][2 * i + 1] * H, yy * inverse, -xy * inverse, xx * inverse, 1.0f / (1.0f + std::exp(-in[3][i]))};
    }
    const float *features = in[4], *background = in[6];
    const uint32_t* list = (const uint32_t*)in[5];
    uint32_t* last = (uint32_t*)out[2];
    for (int y = 0; y < H; y++) {
        for (int x = 0; x < W; x++) {
            const uint32_t* ids = list + (size_t)(y / 16 * tiles + x / 16) * per_tile;
            float T = 1.0f, color[3] = {0, 0, 0};
            uint32_t n = 0;
            for (int k = 0; k < per_tile; k++) {
                const Splat& s = splats[ids[k]];
                const float dx = s.x - (float)x, dy = s.y - (float)y;
                const float power = -0.5f * (s.a * dx * dx + s.c * dy * dy) - s.b * dx * dy;
                if (power > 0.0f) continue;
                const float alpha = std::min(0.99f, s.opacity * std::exp(power));
                if (alpha < 1.0f / 255.0f) continue;
                const float next = T * (1 - alpha);
                if (next < 0.0001f) break;
                for (int c = 0; c < 3; c++) color[c] += features[ids[k] * 3 + c] * alpha * T;
                T = next;
                n = k + 1;
            }
            const size_t pixel = (size_t)y * W + x;
            out[1][pixel] = T;
            last[pixel] = n;
            for (int c = 0; c < 3; c++) out[0][(size_t)c * H * W + pixel] = color[c] + T * background[c];
        }
    }
}

extern "C" void serial_gsplat_preprocess(const float* const* in, float* const* out, int R, int C) {
    const size_t P = (size_t)R * C;
    const float W = 800, H = 600, f = 500;
    const float limx = 1.3f * (W / (2 * f)), limy = 1.3f * (H / (2 * f));
    for (size_t p = 0; p < P; p++) {
        const float mx = in[0][3 * p], my = in[0][3 * p + 1], mz = in[0][3 * p + 2] + 6.0f;
        out[1][p] = 0;
        out[0][2 * p] = out[0][2 * p + 1] = 0;
        out[2][3 * p] = out[2][3 * p + 1] = out[2][3 * p + 2] = 0;
        if (mz <= 0.2f) continue;
        float r = in[2][4 * p], x = in[2][4 * p + 1], y = in[2][4 * p + 2], z = in[2][4 * p + 3];
        const float n = 1.0f / std::sqrt(r * r + x * x + y * y + z * z);
        r *= n, x *= n, y *= n, z *= n;
        float M[3][3] = {{1.f - 2.f * (y * y + z * z), 2.f * (x * y - r * z), 2.f * (x * z + r * y)},
                         {2.f * (x * y + r * z), 1.f - 2.f * (x * x + z * z), 2.f * (y * z - r * x)},
                         {2.f * (x * z - r * y), 2.f * (y * z + r * x), 1.f - 2.f * (x * x + y * y)}};
        for (int j = 0; j < 3; j++) {
            const float s = std::exp(in[1][3 * p + j] - 2.f);
            for (int i = 0; i < 3; i++) M[i][j] *= s;
        }
        auto dot = [&](int i, int j) { return M[i][0] * M[j][0] + M[i][1] * M[j][1] + M[i][2] * M[j][2]; };
        const float c0 = dot(0, 0), c1 = dot(0, 1), c2 = dot(0, 2), c3 = dot(1, 1), c4 = dot(1, 2), c5 = dot(2, 2);
        const float tx = std::min(limx, std::max(-limx, mx / mz)) * mz, ty = std::min(limy, std::max(-limy, my / mz)) * mz;
        const float j00 = f / mz, j02 = -(f * tx) / (mz * mz), j11 = f / mz, j12 = -(f * ty) / (mz * mz);
        const float a0 = j00 * c0 + j02 * c2, a1 = j00 * c1 + j02 * c4, a2 = j00 * c2 + j02 * c5;
        const float b1 = j11 * c3 + j12 * c4, b2 = j11 * c4 + j12 * c5;
        const float xx = a0 * j00 + a2 * j02 + 0.3f, xy = a1 * j11 + a2 * j12, yy = b1 * j11 + b2 * j12 + 0.3f;
        const float det = xx * yy - xy * xy;
        if (det == 0) continue;
        const float inverse = 1.0f / det;
        out[1][p] = mz;
        out[0][2 * p] = f * mx / mz + 0.5f * W;
        out[0][2 * p + 1] = f * my / mz + 0.5f * H;
        out[2][3 * p] = yy * inverse;
        out[2][3 * p + 1] = -xy * inverse;
        out[2][3 * p + 2] = xx * inverse;
    }
}

extern "C" void serial_pointnet2_furthest_point_sampling(const float* const* in, float* const* out, int B, int N) {
    // of equal distances the kernel takes another one (strided order, then a tree); random points have none
    const int M = N / 4;
    for (int b = 0; b < B; b++) {
        const float* points = in[0] + (size_t)b * N * 3;
        float* nearest = out[1] + (size_t)b * N;
        int* ids = (int*)out[0] + (size_t)b * M;
        for (int i = 0; i < N; i++) nearest[i] = 1e10f;
        int old = 0;
        ids[0] = 0;
        for (int j = 1; j < M; j++) {
            const float x = points[old * 3], y = points[old * 3 + 1], z = points[old * 3 + 2];
            float best = -1;
            int besti = 0;
            for (int k = 0; k < N; k++) {
                const float dx = points[k * 3] - x, dy = points[k * 3 + 1] - y, dz = points[k * 3 + 2] - z;
                const float d = std::min(dx * dx + dy * dy + dz * dz, nearest[k]);
                nearest[k] = d;
                if (d > best) best = d, besti = k;
            }
            ids[j] = old = besti;
        }
    }
}

extern "C" void serial_pointnet2_ball_query(const float* const* in, float* const* out, int B, int N) {
    const int M = N / 4, samples = 16;
    for (int b = 0; b < B; b++) {
        const float *centres = in[0] + (size_t)b * M * 3, *points = in[1] + (size_t)b * N * 3;
        for (int j = 0; j < M; j++) {
            int* ids = (int*)out[0] + ((size_t)b * M + j) * samples;
            const float x = centres[j * 3], y = centres[j * 3 + 1], z = centres[j * 3 + 2];
            int n = 0;
            for (int k = 0; k < N && n < samples; k++) {
                const float dx = x - points[k * 3], dy = y - points[k * 3 + 1], dz = z - points[k * 3 + 2];
                if (dx * dx + dy * dy + dz * dz < 0.1f * 0.1f) ids[n++] = k;
            }
            if (n > 0) std::fill(ids + n, ids + samples, ids[0]);
        }
    }
}

extern "C" void serial_mmcv_sigmoid_focal_loss(const float* const* in, float* const* out, int R, int C) {
    const int* targets = (const int*)in[1];
    const float tiny = 1.17549435e-38f;
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        float* o = out[0] + (size_t)r * C;
        for (int c = 0; c < C; c++) {
            const float p = 1.0f / (1.0f + std::exp(-x[c]));
            if (c == targets[r])
                o[c] = -0.25f * (std::pow(1.0f - p, 2.0f) * std::log(std::max(p, tiny)));
            else
                o[c] = -0.75f * (std::pow(p, 2.0f) * std::log(std::max(1.0f - p, tiny)));
        }
    }
}

extern "C" void serial_caffe_max_pool(const float* const* in, float* const* out, int R, int C) {
    const int W = 32, H = C / W, PH = H / 2, PW = W / 2;
    for (int r = 0; r < R; r++) {
        const float *x = in[0] + (size_t)r * C, *dy = in[1] + (size_t)r * PH * PW;
        float *y = out[0] + (size_t)r * PH * PW, *dx = out[2] + (size_t)r * C;
        int* mask = (int*)out[1] + (size_t)r * PH * PW;
        for (int ph = 0; ph < PH; ph++) {
            for (int pw = 0; pw < PW; pw++) {
                const int h0 = std::max(ph * 2 - 1, 0), h1 = std::min(ph * 2 + 2, H);
                const int w0 = std::max(pw * 2 - 1, 0), w1 = std::min(pw * 2 + 2, W);
                float best = -3.402823466e+38f;
                int at = h0 * W + w0;
                for (int h = h0; h < h1; h++)
                    for (int w = w0; w < w1; w++)
                        if (x[h * W + w] > best) best = x[h * W + w], at = h * W + w;
                y[ph * PW + pw] = best;
                mask[ph * PW + pw] = at;
                dx[at] += dy[ph * PW + pw];
            }
        }
    }
}

extern "C" void serial_megatron_bias_dropout_add(const float* const* in, float* const* out, int R, int C) {
    const float scale = 1.0f / 0.9f;
    const float* bias = in[1];
    for (int r = 0; r < R; r++) {
        const size_t at = (size_t)r * C;
        const float *x = in[0] + at, *residual = in[2] + at;
        const int* mask = (const int*)in[3] + at;
        float* o = out[0] + at;
        for (int i = 0; i < C; i++) o[i] = residual[i] + (x[i] + bias[i]) * (mask[i] ? scale : 0.0f);
    }
}

extern "C" void serial_torch_group_norm(const float* const* in, float* const* out, int R, int HW) {
    const int C = 64, G = 16, N = R / C, D = C / G;
    for (int n = 0; n < N; n++) {
        for (int g = 0; g < G; g++) {
            const size_t at = ((size_t)n * C + g * D) * HW;
            const float* x = in[0] + at;
            float* y = out[0] + at;
            float sum = 0, squares = 0;
            for (int i = 0; i < D * HW; i++) {
                sum += x[i];
                squares += x[i] * x[i];
            }
            const float m = sum / (D * HW);
            const float s = 1.0f / std::sqrt(std::max(squares / (D * HW) - m * m, 0.0f) + 1e-5f);
            out[1][n * G + g] = m;
            out[2][n * G + g] = s;
            for (int d = 0; d < D; d++) {
                const float a = s * in[1][g * D + d], b = -a * m + in[2][g * D + d];
                for (int i = 0; i < HW; i++) y[d * HW + i] = a * x[d * HW + i] + b;
            }
        }
    }
}

extern "C" void serial_lion_step(const float* const* in, float* const* out, int R, int C) {
    const size_t n = (size_t)R * C;
    const float lr = 1e-4f, wd = 0.1f, b1 = 0.9f, b2 = 0.99f;
    std::memcpy(out[0], in[0], n * sizeof(float));
    std::memcpy(out[1], in[2], n * sizeof(float));
    const float* gs = in[1];
    float *p = out[0], *ms = out[1];
    for (size_t i = 0; i < n; i++) {
        const float g = gs[i], diff = ms[i] - g, update = diff * b1 + g;
        const float sign = update > 0 ? 1.0f : update < 0 ? -1.0f : 0.0f;
        p[i] = p[i] * (1 - lr * wd) - lr * sign;
        ms[i] = diff * b2 + g;
    }
}

extern "C" void serial_transpose_tiled(const float* const* in, float* const* out, int R, int C) {
    // by tiles, for the cache
    for (int r0 = 0; r0 < R; r0 += 32) {
        const int r1 = std::min(r0 + 32, R);
        for (int c0 = 0; c0 < C; c0 += 32) {
            const int c1 = std::min(c0 + 32, C);
            for (int c = c0; c < c1; c++)
                for (int r = r0; r < r1; r++) out[0][(size_t)c * R + r] = in[0][(size_t)r * C + c];
        }
    }
}

extern "C" void serial_sgemm_shared(const float* const* in, float* const* out, int R, int C) {
    const int K = 256;
    std::vector<float> sum(C);
    for (int r = 0; r < R; r++) {
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (int k = 0; k < K; k++) {
            const float a = in[0][(size_t)r * K + k];
            const float* b = in[1] + (size_t)k * C;
            for (int c = 0; c < C; c++) sum[c] += a * b[c];
        }
        float* o = out[0] + (size_t)r * C;
        for (int c = 0; c < C; c++) o[c] = 1.0f * sum[c] + 0.5f * o[c];
    }
}

extern "C" void serial_kl_div_rows(const float* const* in, float* const* out, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float *q = in[0] + (size_t)r * C, *p = in[1] + (size_t)r * C;
        float *g = out[1] + (size_t)r * C, sum = 0;
        for (int i = 0; i < C; i++) {
            const float target = std::exp(p[i]);
            sum += target * (p[i] - q[i]);
            g[i] = -target;
        }
        out[0][r] = sum;
    }
}

extern "C" void serial_bce_with_logits(const float* const* in, float* const* out, int R, int C) {
    const float inverse = 1.0f / ((float)R * C);
    float total = 0;
    for (int r = 0; r < R; r++) {
        const float *x = in[0] + (size_t)r * C, *y = in[1] + (size_t)r * C;
        float *g = out[0] + (size_t)r * C, sum = 0;
        for (int i = 0; i < C; i++) {
            const float w = 1.0f + (in[2][i] - 1.0f) * y[i];
            sum += (1.0f - y[i]) * x[i] + w * (std::log1p(std::exp(-std::fabs(x[i]))) + std::max(-x[i], 0.0f));
            const float s = 1.0f / (1.0f + std::exp(-x[i]));
            g[i] = ((1.0f - y[i]) - w * (1.0f - s)) * inverse;
        }
        total += sum * inverse;
    }
    out[1][0] += total;
}

extern "C" void serial_cosine_similarity_rows(const float* const* in, float* const* out, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float *x = in[0] + (size_t)r * C, *y = in[1] + (size_t)r * C;
        float dot = 0, xx = 0, yy = 0;
        for (int i = 0; i < C; i++) {
            dot += x[i] * y[i];
            xx += x[i] * x[i];
            yy += y[i] * y[i];
        }
        out[0][r] = dot / (std::max(std::sqrt(xx), 1e-8f) * std::max(std::sqrt(yy), 1e-8f));
    }
}

extern "C" void serial_triplet_margin_rows(const float* const* in, float* const* out, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float *a = in[0] + (size_t)r * C, *p = in[1] + (size_t)r * C, *n = in[2] + (size_t)r * C;
        float sp = 0, sn = 0;
        for (int i = 0; i < C; i++) {
            const float dp = a[i] - p[i] + 1e-6f, dn = a[i] - n[i] + 1e-6f;
            sp += dp * dp;
            sn += dn * dn;
        }
        const float dp = std::sqrt(sp), dn = std::sqrt(sn);
        out[0][r] = std::max(dp - dn + 1.0f, 0.0f);
        out[1][r] = dp;
        out[2][r] = dn;
    }
}

extern "C" void serial_huber_loss(const float* const* in, float* const* out, int R, int C) {
    const int n = R * C;
    const float delta = 1.0f;
    float total = 0;
    for (int r = 0; r < R; r++) {
        const float *x = in[0] + (size_t)r * C, *y = in[1] + (size_t)r * C;
        float *g = out[0] + (size_t)r * C, sum = 0;
        for (int i = 0; i < C; i++) {
            const float d = x[i] - y[i], a = std::fabs(d);
            if (a <= delta) {
                sum += 0.5f * d * d;
                g[i] = d / n;
            } else {
                sum += delta * (a - 0.5f * delta);
                g[i] = (d > 0 ? delta : -delta) / n;
            }
        }
        total += sum / n;
    }
    out[1][0] += total;
}

extern "C" void serial_top1_accuracy(const float* const* in, float* const* out, int R, int C) {
    const int* labels = (const int*)in[1];
    int correct = 0;
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        float best = -INFINITY;
        int at = C;
        for (int i = 0; i < C; i++)
            if (x[i] > best) best = x[i], at = i;
        ((int*)out[0])[r] = at;
        out[1][r] = best;
        correct += at == labels[r];
    }
    *(int*)out[2] += correct;
}

extern "C" void serial_row_cumsum(const float* const* in, float* const* out, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* x = in[0] + (size_t)r * C;
        float *o = out[0] + (size_t)r * C, sum = 0;
        for (int i = 0; i < C; i++) o[i] = sum += x[i];
    }
}

extern "C" void serial_histogram_256(const float* const* in, float* const* out, int R, int C) {
    const int* x = (const int*)in[0];
    unsigned* counts = (unsigned*)out[0];
    for (size_t i = 0; i < (size_t)R * C; i++) counts[x[i] & 255]++;
}

extern "C" void serial_quantize_blockwise(const float* const* in, float* const* out, int R, int C) {
    const size_t blocks = (size_t)R * C / 256;
    signed char* q = (signed char*)out[0];
    for (size_t b = 0; b < blocks; b++) {
        const float* x = in[0] + b * 256;
        float m = 0;
        for (int i = 0; i < 256; i++) m = std::max(m, std::fabs(x[i]));
        const float scale = 127.0f / m, back = m / 127.0f;
        out[1][b] = m;
        for (int i = 0; i < 256; i++) {
            q[b * 256 + i] = (signed char)std::lrint(x[i] * scale);
            out[2][b * 256 + i] = (float)q[b * 256 + i] * back;
        }
    }
}

extern "C" void serial_torch_log_softmax(const float* const* in, float* const* out, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float *x = in[0] + (size_t)r * C, *dy = in[1] + (size_t)r * C;
        float *y = out[0] + (size_t)r * C, *dx = out[1] + (size_t)r * C;
        float m = -3.402823466e+38f, sum = 0, gradients = 0;
        for (int i = 0; i < C; i++) m = std::max(m, x[i]);
        for (int i = 0; i < C; i++) sum += std::exp(x[i] - m);
        const float log_sum = std::log(sum);
        for (int i = 0; i < C; i++) y[i] = x[i] - m - log_sum;
        for (int i = 0; i < C; i++) gradients += dy[i];
        for (int i = 0; i < C; i++) dx[i] = dy[i] - std::exp(y[i]) * gradients;
    }
}
