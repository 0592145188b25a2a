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

static void move_row(const Rule &rule, int64_t width, const float *grad, float *row, float *mean_square) {
    double squares = sum_of_squares(grad, width), length = sqrt(squares);
    if (!isfinite(squares)) return;
    double factor = length > rule.clip ? rule.clip / length : 1;
    if (rule.optimizer != SGD) {
        float old = *mean_square, square = (float)(squares * factor * factor / width);
        if (square != 0) {
            if (rule.optimizer == ADAGRAD) *mean_square = old + square;
            /* The first gradient a row sees starts its mean, so that the first step has the length lr. */
            else *mean_square = old == 0 ? square : (float)(old + rule.new_weight * (square - old));
        }
        factor /= sqrt((double)*mean_square) + rule.eps;
    }
    for (int64_t i = 0; i < width; i++)
        row[i] = (float)(row[i] - rule.lr * (factor * grad[i] + rule.weight_decay * row[i]));
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

/* Moves the rows of a batch in place, in a table of n rows. Returns what is missing, if anything. */
enum { NOTHING, MEMORY, A_ROW };
extern "C" int likely_move_rows(int64_t batch, int64_t width, const int64_t *index, const float *grad, float *rows,
                                float *mean_square, const Rule *rule, int64_t n) {
    for (int64_t place = 0; place < batch; place++)
        if (index[place] < 0 || index[place] >= n) return A_ROW;
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
            move_row(*rule, width, slope, rows + index[place] * width, mean_square + index[place]);
        }
    }
    int missing = first && total ? NOTHING : MEMORY;
    free(first);
    free(total);
    return missing;
}
