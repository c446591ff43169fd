// The mathematics of each kernel as a serial loop in float64. Reads one case from standard input, writes its
// outputs: `size NAME VALUE`, `in NAME COUNT VALUES`, `out NAME COUNT VALUES` (what it begins as), in text. With an
// argument it writes in front of them the microseconds of processor time that the loop takes, the least of several runs.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

using Vec = std::vector<double>;
static std::map<std::string, double> size_of;
static std::map<std::string, Vec> in, out;
static std::vector<std::string> order;
static Vec none;
static long find_size(const char* name) { return (long)size_of.at(name); }
static double P(const char* name, double otherwise) { return size_of.count(name) ? size_of.at(name) : otherwise; }
static Vec* find_in(const char* name) { return &in.at(name); }
static Vec* find_out(const char* name) { return out.count(name) ? &out.at(name) : (none.assign(1 << 20, 0.0), &none); }

// A name is looked up once in a case, at each place that mentions it.
static long number_of_case = 0;
template <class T, T (*Find)(const char*)>
struct Found {
    T value{};
    const char* name = nullptr;
    long known_in = -1;
    T of(const char* wanted) {
        if (known_in != number_of_case || name != wanted) value = Find(wanted), name = wanted, known_in = number_of_case;
        return value;
    }
};
#define FOUND(T, find, name) ([](const char* wanted) -> T { static Found<T, find> found; return found.of(wanted); }(name))
#define S(name) FOUND(long, find_size, name)
#define I(name) (*FOUND(Vec*, find_in, name))
#define O(name) (*FOUND(Vec*, find_out, name))
static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
static double dot(const double* a, const double* b, long n, long sa = 1, long sb = 1) {
    double sum = 0;
    for (long i = 0; i < n; i++) sum += a[i * sa] * b[i * sb];
    return sum;
}
static double lse(const double* x, long n, double scale = 1) {
    double m = *std::max_element(x, x + n), sum = 0;
    for (long i = 0; i < n; i++) sum += std::exp(scale * (x[i] - m));
    return scale * m + std::log(sum);
}

static void norm_row(const double* x, double* y, const double* w, const double* b, long C, double* mean, double* rstd) {
    double m = std::accumulate(x, x + C, 0.0) / C, v = 0;
    for (long c = 0; c < C; c++) v += (x[c] - m) * (x[c] - m);
    double s = 1 / std::sqrt(v / C + 1e-5);
    for (long c = 0; c < C; c++) y[c] = (x[c] - m) * s * w[c] + b[c];
    *mean = m;
    *rstd = s;
}
static void layernorm_forward() {
    long N = S("B") * S("T"), C = S("C");
    for (long r = 0; r < N; r++)
        norm_row(&I("inp")[r * C], &O("out")[r * C], &I("weight")[0], &I("bias")[0], C, &O("mean")[r], &O("rstd")[r]);
}
static void layernorm_backward() {
    long N = S("B") * S("T"), C = S("C");
    for (long r = 0; r < N; r++) {
        double m = I("mean")[r], s = I("rstd")[r], a = 0, b = 0;
        auto norm = [&](long c) { return (I("inp")[r * C + c] - m) * s; };
        auto dnorm = [&](long c) { return I("weight")[c] * I("dout")[r * C + c]; };
        for (long c = 0; c < C; c++) a += dnorm(c) / C, b += dnorm(c) * norm(c) / C;
        for (long c = 0; c < C; c++) {
            O("dbias")[c] += I("dout")[r * C + c];
            O("dweight")[c] += norm(c) * I("dout")[r * C + c];
            O("dinp")[r * C + c] += (dnorm(c) - a - norm(c) * b) * s;
        }
    }
}
static void rmsnorm_forward() {
    long C = S("cols");
    for (long r = 0; r < S("rows"); r++) {
        const double* x = &I("x")[r * C];
        double s = 1 / std::sqrt(dot(x, x, C) / C + 1e-6);
        O("rms")[r] = s;
        for (long c = 0; c < C; c++) O("out")[r * C + c] = x[c] * s * I("weight")[c];
    }
}
static void rmsnorm_backward() {
    long C = S("cols");
    for (long r = 0; r < S("rows"); r++) {
        const double *x = &I("x")[r * C], *g = &I("dout")[r * C];
        double s = I("rms")[r], d = 0;
        for (long c = 0; c < C; c++) d += g[c] * I("weight")[c] * x[c];
        for (long c = 0; c < C; c++) {
            O("dx")[r * C + c] = s * (g[c] * I("weight")[c] - x[c] * s * s * d / C);
            O("dweight")[c] += g[c] * x[c] * s;
        }
    }
}
static void fused_residual_forward() {
    long C = S("C");
    for (size_t i = 0; i < I("inp1").size(); i++) O("residual")[i] = I("inp1")[i] + I("inp2")[i];
    for (long r = 0; r < S("N"); r++)
        norm_row(&O("residual")[r * C], &O("normed")[r * C], &I("weight")[0], &I("bias")[0], C, &O("mean")[r], &O("rstd")[r]);
}
static void groupnorm() {
    long C = S("C"), HW = S("HW"), per = C / 2;
    for (long g = 0; g < S("N") * 2; g++) {
        const double* x = &I("x")[g * per * HW];
        double m = std::accumulate(x, x + per * HW, 0.0) / (per * HW), v = dot(x, x, per * HW) / (per * HW) - m * m;
        for (long i = 0; i < per * HW; i++) {
            long c = g % 2 * per + i / HW;
            O("y")[g * per * HW + i] = (x[i] - m) / std::sqrt(v + 1e-5) * I("gamma")[c] + I("beta")[c];
        }
    }
}
static void softmax() {
    long C = S("C");
    for (long r = 0; r < S("N"); r++)
        for (long c = 0; c < C; c++) O("out")[r * C + c] = std::exp(I("inp")[r * C + c] - lse(&I("inp")[r * C], C));
}
static void log_softmax() {
    long C = S("cols");
    for (long r = 0; r < S("rows"); r++)
        for (long c = 0; c < C; c++) O("out")[r * C + c] = I("inp")[r * C + c] - lse(&I("inp")[r * C], C);
}
static void softmax_backward() {
    long C = S("C");
    for (long r = 0; r < S("N"); r++) {
        double d = dot(&I("dout")[r * C], &I("out")[r * C], C);
        for (long c = 0; c < C; c++) O("dinp")[r * C + c] = I("out")[r * C + c] * (I("dout")[r * C + c] - d);
    }
}
static void softmax_causal() {
    long T = S("T");
    for (long r = 0; r < S("N") * T; r++)
        for (long i = 0; i < T; i++)
            O("out")[r * T + i] = i > r % T ? 0 : std::exp(0.25 * I("inp")[r * T + i] - lse(&I("inp")[r * T], r % T + 1, 0.25));
}
static void crossentropy_forward() {
    for (long r = 0; r < S("B") * S("T"); r++) O("losses")[r] = -std::log(I("probs")[r * S("V") + (long)I("targets")[r]]);
}
static void crossentropy_softmax_backward() {
    long V = S("V");
    for (long r = 0; r < S("B") * S("T"); r++)
        for (long v = 0; v < V; v++)
            O("dlogits")[r * V + v] += (I("probs")[r * V + v] - (v == (long)I("targets")[r])) * I("dlosses")[r];
}
static void fused_classifier() {
    long V = S("V"), P = S("P");
    for (long r = 0; r < S("B") * S("T"); r++) {
        double *x = &O("logits")[r * P], all = lse(x, V);
        long t = (long)I("targets")[r];
        O("losses")[r] = all - x[t];
        for (long v = 0; v < V; v++) x[v] = (std::exp(x[v] - all) - (v == t)) * 0.125;
    }
}
static void smoothed_xent() {
    long V = S("V"), rows = S("rows");
    O("loss")[0] = 0;
    for (long r = 0; r < rows; r++) {
        long t = (long)I("targets")[r];
        const double* x = &I("logits")[r * V];
        if (t == 3) {
            std::fill_n(&O("dlogits")[r * V], V, 0.0);
            continue;
        }
        double all = lse(x, V), total = std::accumulate(x, x + V, 0.0), s = (double)0.1f, z = (double)1e-3f;
        O("loss")[0] += ((1 - s) * (all - x[t]) + s * (all - total / V) + z * all * all) / rows;
        for (long v = 0; v < V; v++) {
            double p = std::exp(x[v] - all);
            O("dlogits")[r * V + v] = (p - s / V - (v == t ? 1 - s : 0) + 2 * z * all * p) / rows;
        }
    }
}
static void mse_loss() {
    long n = S("n");
    double sum = 0;
    std::fill(O("partial").begin(), O("partial").end(), 0.0);
    for (long i = 0; i < n; i++) {
        double d = I("pred")[i] - I("target")[i];
        sum += d * d / n;
        O("partial")[i % 256 / 64] += d * d;
        O("grad")[i] = 2 * d / n;
    }
    O("loss")[0] = sum;
}
static const double K = std::sqrt(2 / 3.14159265358979323846);
static double gelu(double x) { return 0.5 * x * (1 + std::tanh(K * (x + 0.044715 * x * x * x))); }
static void each(const char* to, const char* from, double (*f)(double)) {
    for (size_t i = 0; i < O(to).size(); i++) O(to)[i] = f(I(from)[i]);
}
static void gelu_forward() { each("out", "inp", gelu); }
static void gelu_backward() {
    for (long i = 0; i < S("N"); i++) {
        double x = I("inp")[i], t = std::tanh(K * (x + 0.044715 * x * x * x));
        O("dinp")[i] = (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * K * (1 + 3 * 0.044715 * x * x)) * I("dout")[i];
    }
}
static void silu() { each("y", "x", [](double x) { return x * sigmoid(x); }); }
static void swiglu_forward() {
    long H = S("hidden");
    for (long r = 0; r < S("rows"); r++)
        for (long c = 0; c < H; c++) {
            double g = I("gate_up")[r * 2 * H + c];
            O("out")[r * H + c] = g * sigmoid(g) * I("gate_up")[r * 2 * H + H + c];
        }
}
static void swiglu_backward() {
    for (long i = 0; i < S("n"); i++) {
        double g = I("gate")[i], s = sigmoid(g), d = I("dout")[i];
        O("dup")[i] = d * g * s;
        O("dgate")[i] = d * I("up")[i] * s * (1 + g * (1 - s));
    }
}
static void relu_squared() { each("out", "inp", [](double x) { return x > 0 ? x * x : 0.0; }); }
static void leaky_relu() { each("out", "inp", [](double x) { return x > 0 ? x : x / 8; }); }
static void quick_gelu() { each("out", "inp", [](double x) { return x * sigmoid(1.702 * x); }); }
static void bias_gelu() {
    long C = S("cols");
    for (long i = 0; i < S("rows") * C; i++) {
        double x = I("inp")[i] + I("bias")[i % C];
        O("out")[i] = x * 0.5 * (1 + std::erf(x * (double)0.70710678f));
    }
}
static void permute_qkv() {
    long B = S("B"), T = S("T"), NH = S("NH"), d = S("HS"), i = 0;
    for (long b = 0; b < B; b++) for (long h = 0; h < NH; h++) for (long t = 0; t < T; t++) for (long c = 0; c < d; c++, i++) {
        const double* x = &I("inp")[(b * T + t) * 3 * NH * d + h * d + c];
        O("q")[i] = x[0], O("k")[i] = x[NH * d], O("v")[i] = x[2 * NH * d];
    }
}
static void unpermute_heads() {
    long B = S("B"), T = S("T"), NH = S("NH"), d = S("HS"), i = 0;
    for (long b = 0; b < B; b++) for (long h = 0; h < NH; h++) for (long t = 0; t < T; t++) for (long c = 0; c < d; c++, i++)
        O("out")[((b * T + t) * NH + h) * d + c] = I("inp")[i];
}
static void attention_forward() {
    long B = S("B"), T = S("T"), C = S("C"), NH = S("NH"), d = C / NH;
    for (long b = 0; b < B; b++) for (long h = 0; h < NH; h++) for (long t = 0; t < T; t++) {
        Vec score(t + 1);
        auto at = [&](long s, long part) { return &I("inp")[(b * T + s) * 3 * C + part * C + h * d]; };
        for (long s = 0; s <= t; s++) score[s] = dot(at(t, 0), at(s, 1), d) / std::sqrt((double)d);
        double all = lse(&score[0], t + 1);
        for (long s = 0; s < T; s++) O("att")[((b * NH + h) * T + t) * T + s] = s <= t ? std::exp(score[s] - all) : 0;
        for (long c = 0; c < d; c++) {
            double sum = 0;
            for (long s = 0; s <= t; s++) sum += std::exp(score[s] - all) * at(s, 2)[c];
            O("out")[(b * T + t) * C + h * d + c] = sum;
        }
    }
}
static void flash_attention() {
    long T = S("T"), d = S("HS");
    for (long head = 0; head < S("B") * S("NH"); head++) for (long t = 0; t < T; t++) {
        Vec score(t + 1);
        for (long s = 0; s <= t; s++) score[s] = dot(&I("q")[(head * T + t) * d], &I("k")[(head * T + s) * d], d) / std::sqrt((double)d);
        double m = *std::max_element(score.begin(), score.end()), all = lse(&score[0], t + 1);
        O("m")[head * T + t] = m;
        O("l")[head * T + t] = std::exp(all - m);
        for (long c = 0; c < d; c++) {
            double sum = 0;
            for (long s = 0; s <= t; s++) sum += std::exp(score[s] - all) * I("v")[(head * T + s) * d + c];
            O("out")[(head * T + t) * d + c] = sum;
        }
    }
}
static void attention_dscores() {
    long T = S("T");
    for (long r = 0; r < S("NH") * T; r++) {
        const double *a = &I("att")[r * T], *da = &I("datt")[r * T];
        double d = dot(a, da, r % T + 1);
        for (long i = 0; i < T; i++) O("dpreatt")[r * T + i] = i <= r % T ? 0.5 * a[i] * (da[i] - d) : 0;
    }
}
static void attention_backward() {
    long T = S("T"), d = S("HS");
    for (auto name : {"dq", "dk", "dv"}) std::fill(O(name).begin(), O(name).end(), 0.0);
    for (long head = 0; head < S("B") * S("NH"); head++) for (long t = 0; t < T; t++) for (long s = 0; s <= t; s++) {
        long a = (head * T + t) * d, b = (head * T + s) * d;
        double scale = 1 / std::sqrt((double)d), p = std::exp(dot(&I("q")[a], &I("k")[b], d) * scale - I("lse")[head * T + t]);
        double ds = p * (dot(&I("dout")[a], &I("v")[b], d) - I("delta")[head * T + t]) * scale;
        for (long c = 0; c < d; c++) {
            O("dq")[a + c] += ds * I("k")[b + c];
            O("dk")[b + c] += ds * I("q")[a + c];
            O("dv")[b + c] += p * I("dout")[a + c];
        }
    }
}
static void rope(const Vec& x, Vec& y, double sign) {
    long T = S("T"), NH = S("NH"), d = S("HS");
    for (size_t i = 0; i < x.size(); i += 2) {
        double angle = sign * (i / (NH * d) % T) / std::pow(10000.0, (double)(i % d) / d);
        y[i] = x[i] * std::cos(angle) - x[i + 1] * std::sin(angle);
        y[i + 1] = x[i] * std::sin(angle) + x[i + 1] * std::cos(angle);
    }
}
static void rope_forward() { rope(I("x"), O("out"), 1); }
static void rope_backward() { rope(I("dout"), O("dx"), -1); }
static void rope_inplace() {
    long H = S("heads"), d = S("head_dim");
    for (long t = 0; t < S("seq_len"); t++) for (long h = 0; h < H; h++) for (long c = 0; c < d / 2; c++) {
        double *row = &O("q")[(t * H + h) * d], a = row[c], b = row[c + d / 2], cs = I("cos")[t * d + c], sn = I("sin")[t * d + c];
        row[c] = a * cs - b * sn;
        row[c + d / 2] = b * cs + a * sn;
    }
}
static void encoder_forward() {
    long C = S("C"), T = S("T");
    for (long i = 0; i < S("B") * T * C; i++) O("out")[i] = I("wte")[(long)I("inp")[i / C] * C + i % C] + I("wpe")[i % (T * C)];
}
static void encoder_backward() {
    long C = S("C"), T = S("T");
    for (long i = 0; i < S("B") * T * C; i++) {
        O("dwte")[(long)I("inp")[i / C] * C + i % C] += I("dout")[i];
        O("dwpe")[i % (T * C)] += I("dout")[i];
    }
}
static void wpe_backward() {
    for (size_t i = 0; i < I("dout").size(); i++) O("dwpe")[i % (S("T") * S("C"))] += I("dout")[i];
}
static void embedding_bag() {
    long D = S("dim"), begin[] = {0, 3, 3, 5, 12};
    for (long b = 0; b < S("bags"); b++) for (long c = 0; c < D; c++) {
        double sum = 0;
        for (long i = begin[b]; i < begin[b + 1]; i++) sum += I("table")[(long)I("indices")[i] * D + c];
        O("out")[b * D + c] = sum / std::max(1L, begin[b + 1] - begin[b]);
    }
}
static void adamw_update() {
    const double b1 = 0.9f, b2 = 0.95f, lr = 1e-2f, eps = 1e-8f, wd = 0.1f;
    for (long i = 0; i < S("n"); i++) {
        double g = 0.5 * I("grads")[i], &p = O("p")[i], &m = O("m")[i], &v = O("v")[i];
        m = b1 * m + (1 - b1) * g;
        v = b2 * v + (1 - b2) * g * g;
        double mc = m / (1 - std::pow(b1, 3)), vc = v / (1 - std::pow(b2, 3));
        p -= lr * (mc / (std::sqrt(vc) + eps) + wd * p);
    }
}
static void sgd_nesterov() {
    for (long i = 0; i < S("n"); i++) {
        double& m = O("momentum")[i];
        m = 0.875 * m + I("g")[i];
        O("p")[i] -= 0.125 * (I("g")[i] + 0.875 * m);
    }
}
static void lion_step() {
    for (long i = 0; i < S("n"); i++) {
        double &p = O("p")[i], &m = O("m")[i], g = I("g")[i], c = 0.875 * m + 0.125 * g;
        p = p * (1 - 0.0625 * 0.125) - 0.0625 * (c > 0 ? 1 : c < 0 ? -1 : 0);
        m = 0.75 * m + 0.25 * g;
    }
}
static void global_norm_squared() {
    std::fill(O("partial").begin(), O("partial").end(), 0.0);
    O("out")[0] = dot(&I("values")[0], &I("values")[0], S("n"));
    for (long i = 0; i < S("n"); i++) O("partial")[i % 512 / 128] += I("values")[i] * I("values")[i];
}
static void clip_gradients() {
    for (double& g : O("grads")) g *= std::min(1.0, 0.5 / (std::sqrt(I("norm_squared")[0]) + (double)1e-6f));
}
static void unscale_gradients() {
    for (double& g : O("grads")) g /= 128;
}
static void ema_update() {
    for (size_t i = 0; i < O("ema").size(); i++) O("ema")[i] = 0.9375 * O("ema")[i] + 0.0625 * I("params")[i];
}
static void dropout_forward() {
    for (uint32_t i = 0; i < (uint32_t)S("n"); i++) {
        uint32_t m = i * 0xd2a80a3fu + 1337;
        m = (m ^ m >> 9) + 0xa884f197u;
        m = (m ^ m >> 11) * 0x6c736f4bu;
        m = (m ^ m >> 13) + 0xb79f3abbu;
        m = (m ^ m >> 15) + 0x1b56c4f5u;
        m ^= m >> 17;
        O("out")[i] = (m >> 8) / 16777216.0 >= 0.25 ? I("inp")[i] / 0.75 : 0;
    }
}
static void philox_dropout() {
    for (uint32_t i = 0; i < (uint32_t)S("n"); i++) {
        uint64_t seed = 0x123456789abcULL;
        uint32_t c[4] = {i / 4, 0, 0, 0}, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int round = 0; round < 10; round++) {
            uint64_t a = 0xD2511F53ULL * c[0], b = 0xCD9E8D57ULL * c[2];
            uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
            std::copy_n(next, 4, c);
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        O("out")[i] = c[i % 4] > 0x80000000u ? 2 * I("inp")[i] : 0;
    }
}
static void sgemm() {
    long M = S("M"), N = S("N"), K = S("K");
    for (long i = 0; i < M * N; i++)
        O("C")[i] = P("alpha", 1) * dot(&I("A")[i / N * K], &I("B")[i % N], K, 1, N) + (P("beta", 0) ? P("beta", 0) * O("C")[i] : 0);
}
static void matmul_forward() {
    long C = S("C"), OC = S("OC");
    for (long i = 0; i < S("B") * S("T") * OC; i++)
        O("out")[i] = I("bias")[i % OC] + dot(&I("inp")[i / OC * C], &I("weight")[i % OC * C], C);
}
static void matmul_backward() {
    long C = S("C"), OC = S("OC"), BT = S("B") * S("T");
    for (long i = 0; i < BT * C; i++) O("dinp")[i] = dot(&I("dout")[i / C * OC], &I("weight")[i % C], OC, 1, C);
    for (long i = 0; i < OC * C; i++) O("dweight")[i] += dot(&I("dout")[i / C], &I("inp")[i % C], BT, OC, C);
}
static void matmul_backward_bias() {
    for (size_t i = 0; i < I("dout").size(); i++) O("dbias")[i % S("OC")] += I("dout")[i];
}
static void batched_matmul() {
    long M = S("M"), N = S("N"), K = S("K");
    for (long b = 0; b < S("batch"); b++) for (long i = 0; i < M * N; i++)
        O("C")[b * M * N + i] = dot(&I("A")[(b * M + i / N) * K], &I("B")[b * K * N + i % N], K, 1, N);
}
static void residual_forward() {
    for (long i = 0; i < S("N"); i++) O("out")[i] = I("inp1")[i] + I("inp2")[i];
}
static void transpose() {
    long R = S("rows"), C = S("cols");
    for (long i = 0; i < R * C; i++) O("odata")[i % C * R + i / C] = I("idata")[i];
}
static void nchw_to_nhwc() {
    long C = S("C"), HW = S("H") * S("W");
    for (long n = 0; n < S("N"); n++) for (long c = 0; c < C; c++) for (long p = 0; p < HW; p++)
        O("out")[(n * HW + p) * C + c] = I("in")[(n * C + c) * HW + p];
}
static void conv1d() {
    long C = S("C"), L = S("L"), OC = S("OC"), K = S("K");
    for (long b = 0; b < S("B"); b++) for (long o = 0; o < OC; o++) for (long t = 0; t < L; t++) {
        double sum = I("bias")[o];
        for (long c = 0; c < C; c++) for (long k = 0; k < K; k++)
            if (t + k - 1 >= 0 && t + k - 1 < L) sum += I("x")[(b * C + c) * L + t + k - 1] * I("weight")[(o * C + c) * K + k];
        O("out")[(b * OC + o) * L + t] = sum;
    }
}
static void causal_conv1d() {
    long D = S("D"), L = S("L");
    for (long r = 0; r < S("B") * D; r++) for (long t = 0; t < L; t++) {
        double sum = 0;
        for (long i = 0; i < 4; i++) sum += t - 3 + i >= 0 ? I("weight")[r % D * 4 + i] * I("x")[r * L + t - 3 + i] : 0;
        O("out")[r * L + t] = sum * sigmoid(sum);
    }
}
static void cumsum() {
    long C = S("cols");
    for (long r = 0; r < S("rows"); r++) std::partial_sum(&I("inp")[r * C], &I("inp")[r * C] + C, &O("out")[r * C]);
}
static void linear_scan() {
    long D = S("D"), T = S("T");
    for (size_t i = 0; i < I("x").size(); i++)
        O("h")[i] = I("x")[i] + (i / D % T ? sigmoid(I("a")[i]) * O("h")[i - D] : 0);
}
static void quantize_rows() {
    long C = S("cols");
    for (long r = 0; r < S("rows"); r++) {
        float most = 0;
        for (long c = 0; c < C; c++) most = std::max(most, (float)std::fabs(I("x")[r * C + c]));
        double scale = (double)most / 127;
        O("scales")[r] = scale;
        for (long c = 0; c < C; c++) O("out")[r * C + c] = std::nearbyint(I("x")[r * C + c] / scale) * scale;
    }
}
static void dequantize_int4() {
    for (long i = 0; i < S("n"); i++) {
        long byte = (long)I("packed")[i / 2];
        O("out")[i] = ((i % 2 ? byte >> 4 : byte & 15) - 8) * I("scales")[i / 32];
    }
}
static void topk() {
    long C = S("cols"), k = S("k");
    for (long r = 0; r < S("rows"); r++) {
        std::vector<long> at(C);
        std::iota(at.begin(), at.end(), 0);
        std::stable_sort(at.begin(), at.end(), [&](long a, long b) { return I("x")[r * C + a] > I("x")[r * C + b]; });
        for (long j = 0; j < k; j++) O("values")[r * k + j] = I("x")[r * C + at[j]], O("indices")[r * k + j] = at[j];
    }
}
static void moe_gate() {
    long E = S("E");
    for (long t = 0; t < S("tokens"); t++) {
        std::vector<long> at(E);
        std::iota(at.begin(), at.end(), 0);
        std::stable_sort(at.begin(), at.end(), [&](long a, long b) { return I("logits")[t * E + a] > I("logits")[t * E + b]; });
        double w = sigmoid(I("logits")[t * E + at[0]] - I("logits")[t * E + at[1]]);
        O("weights")[2 * t] = w, O("weights")[2 * t + 1] = 1 - w;
        O("experts")[2 * t] = at[0], O("experts")[2 * t + 1] = at[1];
    }
}
static void histogram() {
    for (double id : I("ids")) O("counts")[(long)id]++;
}
static void argmax_rows() {
    long V = S("V");
    for (long r = 0; r < S("rows"); r++) {
        auto row = I("logits").begin() + r * V;
        O("out")[r] = std::max_element(row, row + V) - row;
    }
}
static void permute_0213() {
    long B = S("B"), C = S("C"), D = S("D"), i = 0;
    for (long a = 0; a < S("A"); a++) for (long c = 0; c < C; c++) for (long b = 0; b < B; b++) for (long d = 0; d < D; d++)
        O("out")[i++] = I("in")[((a * B + b) * C + c) * D + d];
}
static void max_pool2d() {
    long H = S("H"), W = S("W"), i = 0;
    for (long c = 0; c < S("C"); c++) for (long y = 0; y < H / 2; y++) for (long x = 0; x < W / 2; x++, i++) {
        long best = 2 * y * W + 2 * x;
        auto value = [&](long p) { return I("in")[c * H * W + p]; };
        for (long p : {2 * y * W + 2 * x + 1, (2 * y + 1) * W + 2 * x, (2 * y + 1) * W + 2 * x + 1})
            if (value(p) > value(best)) best = p;
        O("out")[i] = value(best), O("argmax")[i] = best;
    }
}

static void vector_add() {
    for (long i = 0; i < S("n"); i++) O("c")[i] = I("a")[i] + I("b")[i];
}
static void softmax_rows() {
    long C = S("cols");
    for (long i = 0; i < S("rows") * C; i++) O("y")[i] = std::exp(I("x")[i] - lse(&I("x")[i / C * C], C));
}
static void scale_inplace() {
    for (double& x : O("x")) x *= 1.5;
}
static void matrix_transpose_naive() {
    long R = S("rows"), C = S("cols");
    for (long i = 0; i < R * C; i++) O("out")[i % C * R + i / C] = I("in")[i];
}
static void reverse_rows() {
    long C = S("cols");
    for (long i = 0; i < S("rows") * C; i++) O("out")[i] = I("in")[i / C * C + C - 1 - i % C];
}
static void sum_kernel() { O("total")[0] = std::accumulate(I("x").begin(), I("x").end(), 0.0); }
static void gather_rows() {
    long D = S("dim");
    for (long i = 0; i < S("tokens") * D; i++) O("out")[i] = I("table")[(long)I("indices")[i / D] * D + i % D];
}
static void half_axpy() {
    for (long i = 0; i < S("n"); i++) O("y")[i] += 0.5 * I("x")[i];
}

#define ONE(name) {#name, name}
static const std::map<std::string, void (*)()> known = {
    ONE(layernorm_forward), ONE(layernorm_backward), ONE(rmsnorm_forward), ONE(rmsnorm_backward),
    ONE(fused_residual_forward), ONE(groupnorm), ONE(softmax), ONE(log_softmax), ONE(softmax_backward),
    ONE(softmax_causal), ONE(crossentropy_forward), ONE(crossentropy_softmax_backward), ONE(fused_classifier),
    ONE(smoothed_xent), ONE(mse_loss), ONE(gelu_forward), ONE(gelu_backward), ONE(silu), ONE(swiglu_forward),
    ONE(swiglu_backward), ONE(relu_squared), ONE(leaky_relu), ONE(quick_gelu), ONE(bias_gelu), ONE(permute_qkv),
    ONE(unpermute_heads), ONE(attention_forward), ONE(flash_attention), ONE(attention_dscores),
    ONE(attention_backward), ONE(rope_forward), ONE(rope_backward), ONE(rope_inplace), ONE(encoder_forward),
    ONE(encoder_backward), ONE(wpe_backward), ONE(embedding_bag), ONE(adamw_update), ONE(sgd_nesterov),
    ONE(lion_step), ONE(global_norm_squared), ONE(clip_gradients), ONE(unscale_gradients), ONE(ema_update),
    ONE(dropout_forward), ONE(philox_dropout), ONE(sgemm), ONE(matmul_forward), ONE(matmul_backward),
    ONE(matmul_backward_bias), ONE(batched_matmul), ONE(residual_forward), ONE(transpose), ONE(nchw_to_nhwc),
    ONE(conv1d), ONE(causal_conv1d), ONE(cumsum), ONE(linear_scan), ONE(quantize_rows), ONE(dequantize_int4),
    ONE(topk), ONE(moe_gate), ONE(histogram), ONE(argmax_rows), ONE(permute_0213), ONE(max_pool2d),
    ONE(vector_add), ONE(softmax_rows), ONE(scale_inplace), ONE(matrix_transpose_naive), ONE(reverse_rows),
    ONE(sum_kernel), ONE(gather_rows), ONE(half_axpy),
};

static double now_us() {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}
/// The least of several runs on the same inputs.
static void measure(void (*loop)()) {
    const std::map<std::string, Vec> begin = out;
    double best = 1e30;
    for (int k = 0; k < 5; k++) {
        for (const auto& one : begin) out[one.first] = one.second;
        double start = now_us();
        loop();
        best = std::min(best, now_us() - start);
    }
    for (const auto& one : begin) out[one.first] = one.second;
    printf("%.17g\n", best);
}

static void run(bool timed) {
    std::string name, kind, what;
    std::cin >> name;
    while (std::cin >> kind && kind != "end") {
        std::cin >> what;
        if (kind == "size") {
            std::cin >> size_of[what];
            continue;
        }
        size_t count;
        std::cin >> count;
        Vec values(count);
        for (double& value : values) std::cin >> value;
        if (kind == "out") order.push_back(what);
        (kind == "in" ? in : out)[what] = values;
    }
    number_of_case++;
    if (timed) measure(known.at(name));
    known.at(name)();
    for (const std::string& one : order) {
        for (double value : out[one]) printf("%.17g\n", value);
    }
    printf("end\n");
    size_of.clear(), in.clear(), out.clear(), order.clear();
}
int main(int count, char**) {
    std::ios::sync_with_stdio(false);
    while (std::cin >> std::ws && std::cin.peek() != EOF) run(count > 1);
}
