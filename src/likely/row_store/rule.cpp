/* The step of likely/row_store/_rule.py on the CPU: one pass over the rows of a batch, where NumPy makes some thirty. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { RMSPROP, ADAGRAD, SGD };

struct Rule {
    int64_t optimizer;
    double lr, new_weight, eps, clip, weight_decay; /* without clipping, clip is infinite */
};

/* In double precision, in which no square of a float overflows: it is finite where all of them are. */
static double sum_of_squares(const float *x, int64_t n) {
    double sums[8] = {}, total = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) sums[k] += (double)x[i + k] * x[i + k];
    for (; i < n; i++) total += (double)x[i] * x[i];
    for (int k = 0; k < 8; k++) total += sums[k];
    return total;
}

static void step_row(const Rule &rule, int64_t width, const float *grad, const float *row, const float *mean_square,
                     float *new_row, float *new_mean_square) {
    double squares = sum_of_squares(grad, width), length = sqrt(squares);
    bool moves = isfinite(squares);
    double factor = length > rule.clip ? rule.clip / length : 1;
    if (rule.optimizer != SGD) {
        float old = *mean_square, mean = old, square = (float)(squares * factor * factor / width);
        if (moves && square != 0) {
            if (rule.optimizer == ADAGRAD) mean = old + square;
            /* The first gradient a row sees starts its mean, so that the first step has the length lr. */
            else mean = old == 0 ? square : (float)(old + rule.new_weight * (square - old));
        }
        *new_mean_square = mean;
        factor /= sqrt((double)mean) + rule.eps;
    }
    if (moves)
        for (int64_t i = 0; i < width; i++)
            new_row[i] = (float)(row[i] - rule.lr * (factor * grad[i] + rule.weight_decay * row[i]));
    else if (new_row != row)
        for (int64_t i = 0; i < width; i++) new_row[i] = row[i];
}

/* Places of a batch that have the same row, chained in their order: first[s] of a slot of a hash table, then next. */
static void chain(int64_t batch, const int64_t *index, int64_t slots, int64_t *first, int64_t *last, int64_t *next) {
    for (int64_t s = 0; s < slots; s++) first[s] = -1;
    for (int64_t place = 0; place < batch; place++) {
        int64_t s = (int64_t)(((uint64_t)index[place] * 0x9E3779B97F4A7C15u) >> 32) & (slots - 1);
        while (first[s] >= 0 && index[first[s]] != index[place]) s = (s + 1) & (slots - 1);
        if (first[s] < 0) first[s] = place;
        else next[last[s]] = place;
        last[s] = place;
        next[place] = -1;
    }
}

/* Rows at home are all rows, so many, and change where they are; with home 0 they were gathered, and a row that is in the
 * batch twice is written twice. Returns what is missing, if anything. */
enum { NOTHING, MEMORY, A_ROW };
extern "C" int likely_step(int64_t batch, int64_t width, const int64_t *index, const float *grad, const float *rows,
                           const float *mean_square, float *new_rows, float *new_mean_square, const Rule *rule,
                           int64_t home) {
    for (int64_t place = 0; home && place < batch; place++)
        if (index[place] < 0 || index[place] >= home) return A_ROW;
    int64_t slots = 16;
    while (slots < 2 * batch) slots *= 2;
    int64_t *first = (int64_t *)malloc((2 * slots + batch) * sizeof(int64_t)), *last = first + slots, *next = last + slots;
    float *total = (float *)malloc(width * sizeof(float) + 1);
    if (first && total) {
        chain(batch, index, slots, first, last, next);
        for (int64_t s = 0; s < slots; s++) {
            int64_t place = first[s];
            if (place < 0) continue;
            const float *slope = grad + place * width;
            if (next[place] >= 0) {
                for (int64_t i = 0; i < width; i++) total[i] = slope[i];
                for (int64_t p = next[place]; p >= 0; p = next[p])
                    for (int64_t i = 0; i < width; i++) total[i] += grad[p * width + i];
                slope = total;
            }
            if (home) place = index[place];
            for (; place >= 0; place = home ? -1 : next[place])
                step_row(*rule, width, slope, rows + place * width, mean_square + place, new_rows + place * width,
                         new_mean_square + place);
        }
    }
    int missing = first && total ? NOTHING : MEMORY;
    free(first);
    free(total);
    return missing;
}
