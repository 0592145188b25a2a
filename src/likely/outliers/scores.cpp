/* The five views of LikelihoodDetector and the score, from rows as they are read. What the views are, _views.py says.
 *
 * A tile of rows is transposed, and everything is computed while it is in the cache. The nearest of the centres is
 * found by bounds: coordinates are rounded to whole numbers of `step`, up to MOST of them. Neither that limit nor
 * rounding makes a distance shorter than it looks by more than the rounding of the row and of the centre, so that only
 * centres that may be the nearest are looked at in double precision. Sums of products of whole numbers are exact, in
 * bytes (which some processors multiply and add four at a time) as in floats: the same centres are looked at anywhere.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#if defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(__AVX512F__)
#include <immintrin.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* ARM's instruction that adds bytes: on every Mac; elsewhere GCC's assembler has to be told, and Clang's cannot be. */
#if defined(__ARM_FEATURE_DOTPROD)
#define SDOT "sdot"
#elif defined(__aarch64__) && !defined(__clang__)
#define SDOT ".arch armv8.2-a+dotprod\n\tsdot"
#endif

#define INLINE static inline __attribute__((always_inline))
#define TILE 64     /* rows */
#define WIDEST 128  /* columns, for which sums of products of whole numbers are exact in float */
#define GROUP 64    /* centres, a multiple of those whose sums are in registers at once */
#define MOST 127    /* the largest whole number */
#define LARGE 1e12  /* as in _views.py, like the next two */
#define SAME 1e-6
#define NEAR 1e-3
#define CELLS 52    /* bins of a histogram, with one beyond either end */
#define KNOTS 128   /* intervals of a curve of tails, at most */
#define FAR 1e50    /* as in _columns.py */
#define VIEWS 5
#define HEARD 3

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define REALS (BYTES / 8)
typedef double Reals __attribute__((vector_size(BYTES), aligned(8), may_alias));
typedef float Floats __attribute__((vector_size(BYTES), aligned(4), may_alias));
#if defined(__AVX512F__)
typedef int32_t Ints __attribute__((vector_size(64), aligned(4), may_alias));
#else
typedef int32_t Ints __attribute__((vector_size(16), aligned(4), may_alias));
#endif

struct Histograms {
    const double *low, *inverse, *nats, *usual; /* of each column; nats: columns × CELLS */
};

struct Detector {
    int64_t width, draws, count;                /* columns; draws of so many centres */
    const int64_t *column;                      /* of the table */
    const double *unit, *centre, *inverse;      /* z = (x * unit - centre) * inverse */
    const double *location, *precision, *turns; /* turns: width × 2 width, to whitened and to principal coordinates */
    const double *knots, *nats, *slopes, *usual; /* of tails; knots: columns × (KNOTS + 1), the last is the end */
    Histograms columns, components;
    const double *centres;                      /* draws × count × width */
    double df;
};

struct Rows {
    const void *values;
    int64_t is_double, count, row_stride, column_stride; /* strides in numbers */
    const double *levels; /* rows × 3: what levels add to the squared distance, to its dimensions, and in nats; or null */
    double *views;        /* rows × VIEWS, or null */
    double *scores;       /* or null */
    const double *middle, *unit; /* of each view, where there are scores */
};

/* Two ways to store whole numbers: `together` of them are multiplied and added up in each of `lanes` sums at once.
 * Intel's processors multiply bytes without a sign by bytes with one: there centres are stored `raised`, and what that
 * adds to the sums of a row is taken off them.
 */
struct Bytes {
    typedef int8_t Number;
    typedef int32_t Sum;
    typedef Ints Sums;
    static const int together = 4, lanes = sizeof(Ints) / 4;
#if defined(__AVX512F__)
    static const int raised = 128;
#else
    static const int raised = 0;
#endif
    static inline __attribute__((always_inline)) Sums add(Sums sums, Ints centres, const Number *row) {
#if defined(SDOT)
        int32_t four;
        memcpy(&four, row, 4);
        Ints own = {four, four, four, four};
        __asm__(SDOT " %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(centres), "w"(own));
#elif defined(__AVX512F__)
        __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(centres), "m"(*(const int32_t *)row));
#endif
        return sums;
    }
    static inline __attribute__((always_inline)) Sum largest(Ints sums) {
#if defined(__aarch64__)
        return vmaxvq_s32((int32x4_t)sums);
#elif defined(__AVX512F__)
        return _mm512_reduce_max_epi32((__m512i)sums);
#endif
        return 0;
    }
    /* Which of GROUP sums are large enough, as bits. */
    static inline __attribute__((always_inline)) uint64_t large(const Sum *sums, Sum least) {
#if defined(__aarch64__)
        const uint8x16_t weight = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
        int32x4_t limit = vdupq_n_s32(least);
        uint8x16_t bits[4];
        for (int v = 0; v < 4; v++) {
            uint16x8_t half[2];
            for (int h = 0; h < 2; h++) {
                const Sum *from = sums + 16 * v + 8 * h;
                uint32x4_t low = vcgeq_s32(vld1q_s32(from), limit), high = vcgeq_s32(vld1q_s32(from + 4), limit);
                half[h] = vuzp1q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
            }
            bits[v] = vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(half[0]), vreinterpretq_u8_u16(half[1])), weight);
        }
        uint8x16_t sum = vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
        return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sum, sum)), 0);
#elif defined(__AVX512F__)
        uint64_t found = 0;
        __m512i limit = _mm512_set1_epi32(least);
        for (int v = 0; v < 4; v++)
            found |= (uint64_t)_mm512_cmpge_epi32_mask(_mm512_loadu_si512(sums + 16 * v), limit) << 16 * v;
        return found;
#endif
        return 0;
    }
};

/* Eight bytes of 0 or 1 as eight bits. */
INLINE uint64_t packed(uint64_t word) { return word * 0x0102040810204080ull >> 56; }

struct Singles {
    typedef float Number;
    typedef float Sum;
    typedef Floats Sums;
    static const int together = 1, lanes = BYTES / 4, raised = 0;
    static inline __attribute__((always_inline)) Sums add(Sums sums, Floats centres, const Number *row) {
        return sums + *row * centres;
    }
    static inline __attribute__((always_inline)) Sum largest(Floats sums) {
        Sum most[lanes];
        memcpy(most, &sums, sizeof(most));
        for (int half = lanes / 2; half; half /= 2)
            for (int lane = 0; lane < half; lane++) most[lane] = std::max(most[lane], most[lane + half]);
        return most[0];
    }
    static inline __attribute__((always_inline)) uint64_t large(const Sum *sums, Sum least) {
        uint8_t bytes[GROUP];
        uint64_t found = 0, word;
        for (int i = 0; i < GROUP; i++) bytes[i] = sums[i] >= least;
        for (int i = 0; i < GROUP; i += 8) memcpy(&word, bytes + i, 8), found |= packed(word) << i;
        return found;
    }
};

static bool adds_bytes() {
#if defined(__ARM_FEATURE_DOTPROD)
    return true;
#elif defined(SDOT) && defined(__linux__)
    return getauxval(AT_HWCAP) & (1 << 20); /* HWCAP_ASIMDDP */
#elif defined(__AVX512F__)
    return __builtin_cpu_supports("avx512vnni");
#else
    return false;
#endif
}

INLINE double within(double x, double most) { return x > most ? most : x < -most ? -most : x; } /* keeps NaN */

/* The sum of the lanes, by halves: one after another they would wait for each other. */
INLINE double total(Reals sums) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_pd((__m512d)sums);
#else
    double lanes[REALS];
    memcpy(lanes, &sums, sizeof(lanes));
    for (int half = REALS / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
    return lanes[0];
#endif
}

static double usual_size(const double *x, int64_t n) {
    double *sizes = (double *)malloc(n * sizeof(double)), found, sum = 0;
    for (int64_t i = 0; i < n; i++) sum += sizes[i] = fabs(x[i]);
    std::nth_element(sizes, sizes + n / 2, sizes + n);
    found = sizes[n / 2] > 0 ? sizes[n / 2] : sum > 0 ? sum / n : 1;
    free(sizes);
    return found;
}

/* What finding the nearest centres writes to. */
template <class Kind> struct Room {
    typename Kind::Number *whole; /* TILE rows of whole numbers */
    double *exact;                /* TILE rows as they are */
    typename Kind::Sum *sums, *best, *least; /* of two rows and all centres; of two rows and each draw; of each draw */
    double *known, *nearest;                 /* of each draw */
    uint64_t *masks;
    int32_t *places;

    Room(int64_t numbers, int64_t wide, int64_t draws, int64_t padded) {
        whole = (typename Kind::Number *)calloc(TILE * numbers, sizeof(*whole));
        exact = (double *)calloc(TILE * wide, sizeof(double));
        sums = (typename Kind::Sum *)malloc((2 * padded + 3) * draws * sizeof(*sums));
        best = sums + 2 * padded * draws, least = best + 2 * draws;
        known = (double *)malloc(2 * draws * sizeof(double)), nearest = known + draws;
        masks = (uint64_t *)malloc(draws * padded / GROUP * sizeof(uint64_t));
        places = (int32_t *)malloc((draws * padded + 2) * sizeof(int32_t));
    }
    ~Room() { free(whole), free(exact), free(sums), free(known), free(masks), free(places); }
};

template <class Kind> struct Nearest {
    typedef typename Kind::Number Number;
    typedef typename Kind::Sum Sum;
    typedef typename Kind::Sums Sums;
    static const int block = 4 * Kind::lanes; /* centres whose sums are in registers at once */
    int64_t width, wide, draws, count, padded, groups;
    double step, inverse, rounding; /* by which a centre differs from whole numbers of steps, at most */
    double *exact;         /* draws × padded × wide */
    Number *whole;         /* draws × blocks × groups × block × together */
    Sum *halves;           /* minus half of each squared length, rounded towards zero */
    int32_t *draw;         /* of each GROUP of centres */

    explicit Nearest(const Detector &own) : width(own.width), draws(own.draws), count(own.count), rounding(0) {
        wide = (width + REALS - 1) / REALS * REALS;
        groups = (width + Kind::together - 1) / Kind::together;
        padded = (count + GROUP - 1) / GROUP * GROUP;
        step = usual_size(own.centres, draws * count * width) * 6 / MOST, inverse = 1 / step;
        exact = (double *)calloc(draws * padded * wide, sizeof(double));
        int64_t numbers = draws * padded * groups * Kind::together;
        whole = (Number *)malloc(numbers * sizeof(Number));
        for (int64_t i = 0; i < numbers; i++) whole[i] = (Number)Kind::raised;
        halves = (Sum *)malloc(draws * padded * sizeof(Sum));
        draw = (int32_t *)malloc(draws * padded / GROUP * sizeof(int32_t));
        for (int64_t i = 0; i < draws * padded / GROUP; i++) draw[i] = (int32_t)(i * GROUP / padded);
        for (int64_t d = 0; d < draws; d++)
            for (int64_t i = 0; i < padded; i++) {
                const double *centre = own.centres + (d * count + i) * width;
                Number *to = whole + (d * padded + i / block * block) * groups * Kind::together;
                if (i < count) {
                    memcpy(exact + (d * padded + i) * wide, centre, width * sizeof(double));
                    double square = 0, off = 0;
                    for (int64_t k = 0; k < width; k++) {
                        double q = rounded(centre[k], &off);
                        to[(k / Kind::together * block + i % block) * Kind::together + k % Kind::together] = (Number)(int)(q + Kind::raised);
                        square += q * q;
                    }
                    halves[d * padded + i] = (Sum)-floor(square / 2);
                    rounding = fmax(rounding, sqrt(off));
                } else { /* nowhere near anything */
                    halves[d * padded + i] = (Sum)-(1 << 23);
                    exact[(d * padded + i) * wide] = INFINITY;
                }
            }
    }
    ~Nearest() { free(exact), free(whole), free(halves), free(draw); }

    double rounded(double x, double *off) const {
        double inside = within(x * inverse, MOST), q = nearbyint(inside);
        *off += (inside - q) * (inside - q);
        return q;
    }

    double square(int64_t place, const double *x) const {
        const double *centre = exact + place * wide;
        Reals sums = {0}, more = {0};
        int64_t k = 0;
        for (; k + REALS < wide; k += 2 * REALS) {
            Reals off = *(const Reals *)(x + k) - *(const Reals *)(centre + k);
            Reals other = *(const Reals *)(x + k + REALS) - *(const Reals *)(centre + k + REALS);
            sums += off * off, more += other * other;
        }
        if (k < wide) {
            Reals off = *(const Reals *)(x + k) - *(const Reals *)(centre + k);
            sums += off * off;
        }
        return total(sums + more);
    }

    /* Which centre of a draw is the nearest but one that is not asked for. */
    int64_t nearest(int64_t draw, int64_t but, const double *x) const {
        int64_t found = -1;
        double least = INFINITY;
        for (int64_t place = draw * padded; place < draw * padded + count; place++) {
            double distance = place == but ? INFINITY : square(place, x);
            if (distance < least) least = distance, found = place;
        }
        return found;
    }

    /* Two rows at once: products with the centres of a draw less half of the centres' squares, and the largest. */
    INLINE void multiply(const Number *const whole, const Sum *halves, int64_t padded, int64_t groups, int64_t draws,
                         const Number *rows, int64_t stride, const Sum *raised, Sum *sums, Sum *best) {
        Sums most[2] = {{0}, {0}};
        for (int64_t start = 0; start < padded; start += block) {
            Sums own[2][4];
            const Number *from = whole + start * groups * Kind::together;
            for (int v = 0; v < 4; v++)
                for (int r = 0; r < 2; r++) own[r][v] = *(const Sums *)(halves + start + v * Kind::lanes) - raised[r];
            for (int64_t g = 0; g < groups; g++)
                for (int v = 0; v < 4; v++) {
                    Sums centres = *(const Sums *)(from + (g * 4 + v) * Kind::lanes * Kind::together);
                    for (int r = 0; r < 2; r++)
                        own[r][v] = Kind::add(own[r][v], centres, rows + r * stride + g * Kind::together);
                }
            for (int r = 0; r < 2; r++)
                for (int v = 0; v < 4; v++) {
                    *(Sums *)(sums + r * draws * padded + start + v * Kind::lanes) = own[r][v];
                    most[r] = start + v ? (own[r][v] > most[r] ? own[r][v] : most[r]) : own[r][v];
                }
        }
        for (int r = 0; r < 2; r++) best[r * draws] = Kind::largest(most[r]);
    }

    /* Where the bits of some masks are set. */
    INLINE int64_t places(const uint64_t *masks, int64_t n, int32_t *found) {
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++) {
            uint64_t bits = masks[i];
            for (int first = 0; first < 2; first++) { /* most often there are no more: no branch to guess */
                found[count] = (int32_t)(i * GROUP + (bits ? __builtin_ctzll(bits) : 0));
                count += bits != 0, bits &= bits - 1;
            }
            for (; bits; bits &= bits - 1) found[count++] = (int32_t)(i * GROUP + __builtin_ctzll(bits));
        }
        return count;
    }

    /* The mean over the draws of log σ² around the nearest centre, of the first n rows of a tile of columns. */
    void log_scale(const double *columns, int64_t n, double *found, Room<Kind> &room) const {
        double size[TILE] = {0}, whole_size[TILE] = {0}, slack[TILE] = {0}, own[TILE], whole_own[TILE];
        Sum raised[TILE] = {0};
        int64_t stride = groups * Kind::together;
        for (int64_t k = 0; k < width; k++) {
            for (int r = 0; r < TILE; r++) {
                own[r] = within(columns[k * TILE + r], LARGE);
                whole_own[r] = rounded(own[r], slack + r);
                whole_size[r] += whole_own[r] * whole_own[r], size[r] += own[r] * own[r];
                raised[r] += Kind::raised * (Sum)whole_own[r];
            }
            for (int r = 0; r < TILE; r++) {
                room.whole[r * stride + k] = (Number)whole_own[r];
                room.exact[r * wide + k] = own[r];
            }
        }
        for (int r = 0; r < TILE; r++) slack[r] = sqrt(slack[r]) + rounding;
        for (int64_t r = 0; r < n; r++) {
            if (r % 2 == 0)
                for (int64_t d = 0; d < draws; d++)
                    multiply(whole + d * padded * stride, halves + d * padded, padded, groups, draws,
                             room.whole + r * stride, stride, raised + r, room.sums + d * padded, room.best + d);
            const Sum *sums = room.sums + r % 2 * draws * padded, *best = room.best + r % 2 * draws;
            for (int64_t d = 0; d < draws; d++) {
                /* A square in steps is whole_size - 2 sum, or one more. */
                double reach = sqrtf((float)(whole_size[r] - 2.0 * best[d] + 1)) * (1 + 1e-6) + 2 * slack[r];
                room.least[d] = (Sum)floor((whole_size[r] - reach * reach) / 2);
                room.known[d] = (reach - slack[r]) * step;
                room.nearest[d] = INFINITY;
            }
            int64_t masks = draws * padded / GROUP;
            for (int64_t i = 0; i < masks; i++) room.masks[i] = Kind::large(sums + i * GROUP, room.least[draw[i]]);
            found[r] = around(room.exact + r * wide, size[r], places(room.masks, masks, room.places), room);
        }
    }

    /* The same of one row, by the centres that may be the nearest. */
    double around(const double *x, double size, int64_t n, Room<Kind> &room) const {
        double *least = room.nearest, product = 1;
        for (int64_t i = 0; i < n; i++) {
            int64_t d = draw[room.places[i] / GROUP];
            double distance = square(room.places[i], x);
            least[d] = distance < least[d] ? distance : least[d];
        }
        for (int64_t d = 0; d < draws; d++) {
            bool sure = least[d] <= room.known[d] * room.known[d]; /* else the row or a centre is beyond MOST steps */
            if (!sure || least[d] <= SAME * (1 + size)) {
                int64_t at = nearest(d, -1, x);
                least[d] = square(at, x);
                if (least[d] <= SAME * (1 + size)) least[d] = square(nearest(d, at, x), x);
            }
            product *= least[d] / width + NEAR;
        }
        return log(product) / draws;
    }
};

/* Columns of one tile, each TILE numbers. */
struct Tile {
    double *z, *centred, *turned; /* turned: whitened, then principal coordinates */
    double *precision, *push;     /* of what is missing */
    int64_t *place;

    explicit Tile(int64_t width) {
        z = (double *)malloc((4 * width * TILE + width * (width + 1)) * sizeof(double));
        centred = z + width * TILE, turned = centred + width * TILE;
        precision = turned + 2 * width * TILE, push = precision + width * width;
        place = (int64_t *)malloc(width * sizeof(int64_t));
    }
    ~Tile() { free(z), free(place); }
};

/* Standard numbers; whether any is missing. */
template <class T> static bool standardise(const Detector &own, const Rows &rows, int64_t start, int64_t n, double *z) {
    bool gaps = false;
    for (int64_t j = 0; j < own.width; j++) {
        const T *from = (const T *)rows.values + start * rows.row_stride + own.column[j] * rows.column_stride;
        double *to = z + j * TILE, unit = own.unit[j], centre = own.centre[j], inverse = own.inverse[j];
        if (rows.row_stride == 1)
            for (int64_t r = 0; r < n; r++) to[r] = (double)from[r];
        else
            for (int64_t r = 0; r < n; r++) to[r] = (double)from[r * rows.row_stride];
        for (int64_t r = n; r < TILE; r++) to[r] = 0;
        int64_t missing = 0;
        for (int64_t r = 0; r < TILE; r++) {
            to[r] = within((to[r] * unit - centre) * inverse, FAR);
            missing += to[r] != to[r];
        }
        gaps |= missing > 0;
    }
    return gaps;
}

/* The conditional mean in the place of every missing number of one row; how many are seen. */
static int64_t fill(const Detector &own, Tile &tile, int64_t r) {
    int64_t lost = 0, width = own.width;
    for (int64_t j = 0; j < width; j++)
        if (tile.centred[j * TILE + r] != tile.centred[j * TILE + r]) tile.place[lost++] = j;
    double *root = tile.precision, *push = tile.push;
    for (int64_t a = 0; a < lost; a++) tile.centred[tile.place[a] * TILE + r] = 0;
    for (int64_t a = 0; a < lost; a++) { /* Cholesky's root of the precision of what is missing, and its first solution */
        const double *precision = own.precision + tile.place[a] * width;
        push[a] = 0;
        for (int64_t j = 0; j < width; j++) push[a] -= precision[j] * tile.centred[j * TILE + r];
        for (int64_t b = 0; b <= a; b++) {
            double sum = precision[tile.place[b]];
            for (int64_t k = 0; k < b; k++) sum -= root[a * lost + k] * root[b * lost + k];
            root[a * lost + b] = a == b ? sqrt(fmax(sum, 1e-300)) : sum / root[b * lost + b];
        }
        for (int64_t k = 0; k < a; k++) push[a] -= root[a * lost + k] * push[k];
        push[a] /= root[a * lost + a];
    }
    for (int64_t a = lost - 1; a >= 0; a--) {
        for (int64_t k = a + 1; k < lost; k++) push[a] -= root[k * lost + a] * push[k];
        push[a] /= root[a * lost + a];
    }
    for (int64_t a = 0; a < lost; a++) tile.centred[tile.place[a] * TILE + r] = push[a];
    return width - lost;
}

static void turn(const double *turns, int64_t width, const double *from, double *to) {
    int64_t outputs = 2 * width, at[4];
    for (int64_t k = 0; k < outputs; k += 4) {
        for (int q = 0; q < 4; q++) at[q] = k + q < outputs ? k + q : outputs - 1;
        for (int64_t r = 0; r < TILE; r += 4 * REALS) {
            Reals sums[4][4] = {{{0}}};
            for (int64_t j = 0; j < width; j++)
                for (int v = 0; v < 4; v++) {
                    Reals own = *(const Reals *)(from + j * TILE + r + v * REALS);
                    for (int q = 0; q < 4; q++) sums[q][v] += turns[j * outputs + at[q]] * own;
                }
            for (int q = 0; q < 4; q++)
                for (int v = 0; v < 4; v++) *(Reals *)(to + at[q] * TILE + r + v * REALS) = sums[q][v];
        }
    }
}

static void add_histograms(const Histograms &own, int64_t width, const double *z, bool gaps, double *total) {
    int32_t at[TILE];
    for (int64_t j = 0; j < width; j++, z += TILE) {
        const double *nats = own.nats + j * CELLS;
        double low = own.low[j], inverse = own.inverse[j], usual = own.usual[j];
        for (int r = 0; r < TILE; r++) {
            double place = (z[r] - low) * inverse + 1;
            place = place > 0 ? place : 0; /* of what is missing too */
            at[r] = (int32_t)(place < CELLS - 1 ? place : CELLS - 1);
        }
        if (gaps)
            for (int r = 0; r < TILE; r++) total[r] += z[r] != z[r] ? usual : nats[at[r]];
        else
            for (int r = 0; r < TILE; r++) total[r] += nats[at[r]];
    }
}

/* Curves of tails, with a grid that says about where a value is among the knots. */
struct Curves {
    static const int cells = 256;
    struct Curve {
        double knots[2 * KNOTS], nats[KNOTS], slopes[KNOTS], end, inverse, usual;
        int64_t reach; /* half of the knots to search from where a cell begins, a power of two; 0 for none */
        uint8_t start[cells];
    } *curves;

    explicit Curves(const Detector &own) {
        curves = (Curve *)malloc(own.width * sizeof(Curve));
        for (int64_t j = 0; j < own.width; j++) {
            Curve &to = curves[j];
            const double *knots = own.knots + j * (KNOTS + 1);
            memcpy(to.knots, knots, KNOTS * sizeof(double));
            for (int i = KNOTS; i < 2 * KNOTS; i++) to.knots[i] = INFINITY;
            memcpy(to.nats, own.nats + j * KNOTS, sizeof(to.nats));
            memcpy(to.slopes, own.slopes + j * KNOTS, sizeof(to.slopes));
            to.end = knots[KNOTS], to.usual = own.usual[j];
            to.inverse = to.end > knots[0] ? cells / (to.end - knots[0]) : 0;
            int64_t most = 0, at = 0, i = 0;
            for (int c = 0; c < cells; c++) {
                to.start[c] = (uint8_t)at; /* the last knot of the cells before */
                int64_t before = i;
                for (; i < KNOTS && to.knots[i] < INFINITY && place(to, to.knots[i]) == c; i++) at = i;
                most = i - before > most ? i - before : most;
            }
            for (to.reach = 1; to.reach * 2 <= most; to.reach *= 2) {}
        }
    }
    ~Curves() { free(curves); }

    INLINE int32_t place(const Curve &own, double z) {
        double found = (z - own.knots[0]) * own.inverse;
        found = found > 0 ? found : 0; /* of what is missing too */
        return (int32_t)(found < cells - 1 ? found : cells - 1);
    }

    void add(int64_t width, const double *z, bool gaps, double *total) const {
        int32_t at[TILE];
        for (int64_t j = 0; j < width; j++, z += TILE) {
            const Curve &own = curves[j];
            for (int r = 0; r < TILE; r++) at[r] = place(own, z[r]);
            for (int r = 0; r < TILE; r++) at[r] = own.start[at[r]];
            for (int64_t step = own.reach; step; step /= 2)
                for (int r = 0; r < TILE; r++) at[r] += (int32_t)((own.knots[at[r] + step] <= z[r]) * step);
            for (int r = 0; r < TILE; r++) {
                double inside = z[r] > own.knots[0] ? z[r] : own.knots[0]; /* of what is missing too */
                inside = inside < own.end ? inside : own.end;
                double found = own.nats[at[r]] + own.slopes[at[r]] * (inside - own.knots[at[r]]);
                total[r] += gaps && z[r] != z[r] ? own.usual : found;
            }
        }
    }
};

/* The mean of the highest, each in its units. */
static double heard(const double *views, const double *middle, const double *unit) {
    double own[VIEWS], sum = 0;
    for (int v = 0; v < VIEWS; v++) {
        double one = (views[v] - middle[v]) / unit[v];
        int at = v;
        for (; at && own[at - 1] < one; at--) own[at] = own[at - 1];
        own[at] = one;
    }
    for (int v = HEARD - 1; v >= 0; v--) sum += own[v];
    return sum / HEARD;
}

template <class Kind> static void score(const Detector &own, const Rows &rows) {
    Nearest<Kind> nearest(own);
    Curves curves(own);
    Tile tile(own.width);
    int64_t width = own.width;
    Room<Kind> room(nearest.groups * Kind::together, nearest.wide, own.draws, nearest.padded);
    for (int64_t start = 0; start < rows.count; start += TILE) {
        int64_t n = rows.count - start < TILE ? rows.count - start : TILE;
        double parts[3][TILE] = {{0}}, size[TILE] = {0}, seen[TILE], around[TILE];
        bool gaps = rows.is_double ? standardise<double>(own, rows, start, n, tile.z)
                                   : standardise<float>(own, rows, start, n, tile.z);
        for (int64_t j = 0; j < width; j++)
            for (int r = 0; r < TILE; r++) tile.centred[j * TILE + r] = tile.z[j * TILE + r] - own.location[j];
        for (int r = 0; r < TILE; r++) seen[r] = gaps ? fill(own, tile, r) : width;
        turn(own.turns, width, tile.centred, tile.turned);
        for (int64_t k = 0; k < width; k++)
            for (int r = 0; r < TILE; r++) size[r] += tile.turned[k * TILE + r] * tile.turned[k * TILE + r];
        add_histograms(own.components, width, tile.turned + width * TILE, false, parts[0]);
        add_histograms(own.columns, width, tile.z, gaps, parts[1]);
        curves.add(width, tile.z, gaps, parts[2]);
        nearest.log_scale(tile.turned, n, around, room);
        for (int r = 0; r < n; r++) {
            static const double none[3] = {0, 0, 0};
            const double *more = rows.levels ? rows.levels + (start + r) * 3 : none;
            double views[VIEWS] = {-0.5 * log((own.df + seen[r] + more[1]) / (own.df + size[r] + more[0])), around[r],
                                   parts[0][r], parts[1][r] + more[2], parts[2][r] + more[2]};
            if (rows.views) memcpy(rows.views + (start + r) * VIEWS, views, sizeof(views));
            if (rows.scores) rows.scores[start + r] = heard(views, rows.middle, rows.unit);
        }
    }
}

extern "C" void likely_outlier_scores(const Detector *own, const Rows *rows) {
    if (adds_bytes())
        score<Bytes>(*own, *rows);
    else
        score<Singles>(*own, *rows);
}
