// Shared by the kernels of this folder: what a call changes, and sums in several orders.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>

// The orders in which a sum can be taken.
constexpr int ORDERS = 6;

// What a call does otherwise than the first form of its kernel.
struct Change {
    int form;       // the order of sums, and ORDERS times the way to write the formula
    int site;       // the value that a defect scales; 0 for none
    double factor;  // by how much
    int row;        // where; -1 for every row
    int column;     // where; -1 for every column
};

static __device__ int way_of(Change change)
{
    return change.form / ORDERS;
}

// `value`, scaled if the defect is here.
static __device__ float changed(Change change, int site, int row, int column, float value)
{
    bool here = change.site == site && (change.row < 0 || change.row == row) &&
                (change.column < 0 || change.column == column);
    return here ? (float)(value * change.factor) : value;
}

// The sum of term(0) to term(n - 1).
template <class Term>
static __device__ float total(Change change, int n, Term term)
{
    int order = change.form % ORDERS;
    if (order == 1) {  // from the last to the first
        float sum = 0.0f;
        for (int i = n - 1; i >= 0; i--) {
            sum += term(i);
        }
        return sum;
    }
    if (order == 2) {  // four partial sums
        float parts[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int i = 0; i < n; i++) {
            parts[i % 4] += term(i);
        }
        return (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    if (order == 3) {  // a tree over sixteen lanes
        float lanes[16];
        for (int lane = 0; lane < 16; lane++) {
            lanes[lane] = 0.0f;
            for (int i = lane; i < n; i += 16) {
                lanes[lane] += term(i);
            }
        }
        for (int half = 8; half > 0; half /= 2) {
            for (int lane = 0; lane < half; lane++) {
                lanes[lane] += lanes[lane + half];
            }
        }
        return lanes[0];
    }
    if (order == 4) {  // with compensation (Kahan)
        float sum = 0.0f, lost = 0.0f;
        for (int i = 0; i < n; i++) {
            float corrected = term(i) - lost;
            float next = sum + corrected;
            lost = (next - sum) - corrected;
            sum = next;
        }
        return sum;
    }
    if (order == 5) {  // in double precision
        double sum = 0.0;
        for (int i = 0; i < n; i++) {
            sum += term(i);
        }
        return (float)sum;
    }
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        sum += term(i);
    }
    return sum;
}

// The ways in which softmax is written.
constexpr int EXP = 0, EXP2 = 1, ONLINE = 2, EXP_OF_LOG = 3, EXP2_SCALED = 4;

// The exponential of a logit below the maximum.
static __device__ float exponential(int way, float logit, float max)
{
    if (way == EXP2_SCALED) {
        return exp2f(fmaf(logit, 1.44269504f, -(max * 1.44269504f)));
    }
    return way == EXP2 ? exp2f((logit - max) * 1.44269504f) : expf(logit - max);
}

// What softmax needs of a row.
struct Row {
    float max;
    float sum;
};

template <class Logit>
static __device__ Row statistics(Change change, int n, Logit logit)
{
    int way = way_of(change);
    float max = -INFINITY;
    if (way == ONLINE) {
        float sum = 0.0f;
        for (int i = 0; i < n; i++) {
            float next = fmaxf(max, logit(i));
            if (next > -INFINITY) {
                sum = sum * expf(max - next) + expf(logit(i) - next);
            }
            max = next;
        }
        return {max, sum};
    }
    for (int i = 0; i < n; i++) {
        max = fmaxf(max, logit(i));
    }
    if (max == -INFINITY) {
        return {max, 0.0f};
    }
    float sum = total(change, n, [&](int i) { return exponential(way, logit(i), max); });
    return {max, sum};
}

// The share of one logit; 0 in an empty row.
static __device__ float probability(Change change, Row row, float logit)
{
    int way = way_of(change);
    if (row.max == -INFINITY) {
        return 0.0f;
    }
    if (way == EXP_OF_LOG) {
        return expf((logit - row.max) - logf(row.sum));
    }
    return exponential(way, logit, row.max) / row.sum;
}
