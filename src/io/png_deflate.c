/* png_deflate.c - a zlib stream of filtered rows, compressed in stripes side by side.
 *
 * Each stripe is raw deflate data that begins with the last 32 KiB before it as its dictionary and
 * ends on a byte, after an empty stored block; so stripes follow each other as one stream, and a
 * stripe costs five bytes. The dictionary is filtered bytes: a stripe waits for the one before to
 * be filtered, not compressed. Stripes are taken in their order, so the one waited for is at work.
 * https://www.rfc-editor.org/rfc/rfc1950, https://www.rfc-editor.org/rfc/rfc1951 */
#include "io/png_deflate.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST /* next_in is a pointer to const */
#include <zlib.h>

#include "io/png_filter.h"

/* Bytes of filtered rows, at least one row. A stripe of one colour alone has 500 bytes, 20 of them
 * because it is a stripe. */
#define STRIPE_SIZE (512 * 1024)
#define DICTIONARY_SIZE 32768          /* deflate looks no further back */
#define MOST_MEMORY ((size_t)64 << 20) /* of stripes, unless a single one needs more */
#define PIECE_SIZE ((size_t)1 << 30)   /* zlib counts in 32 bits */
#define HEADER_SIZE 2
#define TRAILER_SIZE 4
/* An empty stored block, and what deflateBound may leave out of it. */
#define FLUSH_SIZE 16

/* zlib's level 6 looks for matches that filtered photos do not have: level 4 takes a third of its
 * time for the same size. Where a picture repeats itself, level 4 loses up to half. The beginning
 * of a stripe is compressed with both: level 4 is taken where that is at most a 25th longer and
 * does not shrink to less than a fifth. The files of 86 pictures had 97 to 103 % of the bytes that
 * libpng's own had; docs/performance.md has some. */
#define THOROUGH_LEVEL 6
#define FAST_LEVEL 4
#define SAMPLE_SIZE 8192
#define SAMPLED_SIZE (8 * SAMPLE_SIZE) /* shorter stripes are worth no sample */

typedef struct stripe {
    unsigned char *rows; /* the row before the stripe and its rows; in the end the packed bytes */
    unsigned char *filtered;
    int64_t count; /* rows that are there */
    bool packed;
    size_t filtered_size, packed_size;
    uLong checksum; /* adler32 of the filtered bytes */
} stripe;

/* The last filtered bytes before a stripe. There is one more of these than of stripes, since a
 * stripe writes the next one's before that one needs its own no more. */
typedef struct dictionary {
    int64_t of; /* the stripe that they precede; -1 at first */
    size_t size;
    unsigned char bytes[DICTIONARY_SIZE];
} dictionary;

/* A thread that compresses; the caller's is the first. */
typedef struct packer {
    uf_png_deflate *deflate;
    pthread_t thread;
    z_stream stream;
    bool has_stream;
    unsigned char *row; /* scratch of 1 + rows.size bytes */
    unsigned char sample[2 * SAMPLE_SIZE];
} packer;

struct uf_png_deflate {
    uf_png_rows rows;
    int64_t stripe_rows, stripe_count;
    size_t room; /* for packed bytes in stripe.rows */

    int64_t slots; /* stripe n is in slot n % slots */
    stripe *stripes;
    dictionary *dictionaries; /* slots + 1 */
    unsigned char *last;      /* the last row that was put in; zeros before the first */
    int64_t put_rows;         /* of the picture */
    uLong checksum;           /* of the stripes that were taken out */

    /* Under the mutex, with the dictionaries' `of` and the stripes' `packed`. Every change is
     * broadcast: stripes take milliseconds. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int64_t full, taken, released; /* stripes, counted from the first */
    bool stop;

    int32_t packer_count, thread_count; /* threads that were started, without the caller's */
    packer packers[];
};

static stripe *stripe_at(const uf_png_deflate *deflate, int64_t number) {
    return &deflate->stripes[number % deflate->slots];
}

static dictionary *dictionary_at(const uf_png_deflate *deflate, int64_t number) {
    return &deflate->dictionaries[number % (deflate->slots + 1)];
}

static bool is_last(const uf_png_deflate *deflate, int64_t number) {
    return number == deflate->stripe_count - 1;
}

/* ---- one stripe ---- */

static void swap_bytes(unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i += 2) {
        const unsigned char first = bytes[i];
        bytes[i] = bytes[i + 1];
        bytes[i + 1] = first;
    }
}

static void filter_stripe(packer *self, stripe *work) {
    const uf_png_rows *rows = &self->deflate->rows;
    if (rows->swap) {
        swap_bytes(work->rows, (size_t)(work->count + 1) * rows->size);
    }
    unsigned char *out = work->filtered;
    for (int64_t y = 0; y < work->count; ++y) {
        const unsigned char *above = work->rows + (size_t)y * rows->size;
        const unsigned char *best =
            uf_png_filter_row(above + rows->size, above, rows->size, rows->pixel, out, self->row);
        if (best != out) {
            memcpy(out, best, 1 + rows->size);
        }
        out += 1 + rows->size;
    }
    work->filtered_size = (size_t)(out - work->filtered);
    work->checksum = adler32_z(adler32(0, NULL, 0), work->filtered, work->filtered_size);
}

/* Give the next stripe its dictionary, then wait for this one's. */
static const dictionary *exchange_dictionaries(uf_png_deflate *deflate, int64_t number,
                                               const stripe *work) {
    dictionary *next = dictionary_at(deflate, number + 1);
    const dictionary *own = dictionary_at(deflate, number);
    const size_t size =
        work->filtered_size < DICTIONARY_SIZE ? work->filtered_size : DICTIONARY_SIZE;
    memcpy(next->bytes, work->filtered + work->filtered_size - size, size);
    next->size = size;
    pthread_mutex_lock(&deflate->mutex);
    next->of = number + 1;
    pthread_cond_broadcast(&deflate->changed);
    while (number > 0 && own->of != number) {
        pthread_cond_wait(&deflate->changed, &deflate->mutex);
    }
    pthread_mutex_unlock(&deflate->mutex);
    return number > 0 ? own : NULL;
}

/* Compress with the dictionary before it; returns the length, or 0 without enough room. zlib has
 * its memory, so nothing else fails. */
static size_t compress_bytes(z_stream *stream, int level, const dictionary *before,
                             const unsigned char *from, size_t size, unsigned char *to, size_t room,
                             int flush) {
    const unsigned char *const begin = to;
    deflateReset(stream);
    deflateParams(stream, level, Z_FILTERED);
    if (before != NULL) {
        deflateSetDictionary(stream, before->bytes, (uInt)before->size);
    }
    while (true) {
        const size_t in = size < PIECE_SIZE ? size : PIECE_SIZE;
        const size_t out = room < PIECE_SIZE ? room : PIECE_SIZE;
        stream->next_in = from;
        stream->avail_in = (uInt)in;
        stream->next_out = to;
        stream->avail_out = (uInt)out;
        deflate(stream, in == size ? flush : Z_NO_FLUSH);
        const size_t read = in - stream->avail_in, written = out - stream->avail_out;
        from += read;
        size -= read;
        to += written;
        room -= written;
        if (size == 0 && stream->avail_out > 0) {
            return (size_t)(to - begin);
        }
        if (read + written == 0) {
            return 0;
        }
    }
}

static int choose_level(packer *self, const dictionary *before, const stripe *work) {
    if (work->filtered_size < SAMPLED_SIZE) {
        return THOROUGH_LEVEL;
    }
    const size_t fast = compress_bytes(&self->stream, FAST_LEVEL, before, work->filtered,
                                       SAMPLE_SIZE, self->sample, sizeof self->sample, Z_FINISH);
    const size_t thorough =
        compress_bytes(&self->stream, THOROUGH_LEVEL, before, work->filtered, SAMPLE_SIZE,
                       self->sample, sizeof self->sample, Z_FINISH);
    return 5 * fast >= SAMPLE_SIZE && 25 * fast <= 26 * thorough ? FAST_LEVEL : THOROUGH_LEVEL;
}

static void pack_stripe(packer *self, int64_t number) {
    static const unsigned char header[HEADER_SIZE] = {0x78, 0x9c}; /* a window of 32 KiB */
    uf_png_deflate *deflate = self->deflate;
    stripe *work = stripe_at(deflate, number);
    filter_stripe(self, work);
    const dictionary *before = exchange_dictionaries(deflate, number, work);
    const int level = choose_level(self, before, work);
    const size_t begin = number == 0 ? HEADER_SIZE : 0;
    memcpy(work->rows, header, begin);
    const size_t packed = compress_bytes(
        &self->stream, level, before, work->filtered, work->filtered_size, work->rows + begin,
        deflate->room - begin - TRAILER_SIZE, is_last(deflate, number) ? Z_FINISH : Z_SYNC_FLUSH);
    work->packed_size = packed > 0 ? begin + packed : 0;
    pthread_mutex_lock(&deflate->mutex);
    work->packed = true;
    pthread_cond_broadcast(&deflate->changed);
    pthread_mutex_unlock(&deflate->mutex);
}

static void *packer_main(void *user) {
    packer *self = user;
    uf_png_deflate *deflate = self->deflate;
    pthread_mutex_lock(&deflate->mutex);
    while (!deflate->stop) {
        if (deflate->taken < deflate->full) {
            const int64_t number = deflate->taken++;
            pthread_mutex_unlock(&deflate->mutex);
            pack_stripe(self, number);
            pthread_mutex_lock(&deflate->mutex);
        } else {
            pthread_cond_wait(&deflate->changed, &deflate->mutex);
        }
    }
    pthread_mutex_unlock(&deflate->mutex);
    return NULL;
}

/* ---- the caller's side ---- */

int64_t uf_png_deflate_put(uf_png_deflate *deflate, const void *rows, int64_t count) {
    const size_t size = deflate->rows.size;
    const unsigned char *from = rows;
    int64_t done = 0;
    while (done < count && deflate->put_rows < deflate->rows.count) {
        pthread_mutex_lock(&deflate->mutex);
        const bool has_room = deflate->full - deflate->released < deflate->slots;
        pthread_mutex_unlock(&deflate->mutex);
        if (!has_room) {
            break;
        }
        const int64_t begin = deflate->put_rows / deflate->stripe_rows * deflate->stripe_rows;
        const int64_t left = deflate->rows.count - begin;
        const int64_t rows_here = left < deflate->stripe_rows ? left : deflate->stripe_rows;
        stripe *next = stripe_at(deflate, begin / deflate->stripe_rows);
        if (deflate->put_rows == begin) {
            next->count = 0;
            next->packed = false;
            memcpy(next->rows, deflate->last, size);
        }
        int64_t taken = rows_here - next->count;
        taken = taken < count - done ? taken : count - done;
        memcpy(next->rows + (size_t)(next->count + 1) * size, from + (size_t)done * size,
               (size_t)taken * size);
        next->count += taken;
        deflate->put_rows += taken;
        done += taken;
        if (next->count == rows_here) {
            memcpy(deflate->last, next->rows + (size_t)rows_here * size, size);
            pthread_mutex_lock(&deflate->mutex);
            ++deflate->full;
            pthread_cond_broadcast(&deflate->changed);
            pthread_mutex_unlock(&deflate->mutex);
        }
    }
    return done;
}

/* Wait until the oldest stripe is packed, and pack what no thread has taken. */
static void wait_for_stripe(uf_png_deflate *deflate, const stripe *oldest) {
    while (!oldest->packed) {
        if (deflate->taken < deflate->full) {
            const int64_t number = deflate->taken++;
            pthread_mutex_unlock(&deflate->mutex);
            pack_stripe(&deflate->packers[0], number);
            pthread_mutex_lock(&deflate->mutex);
        } else {
            pthread_cond_wait(&deflate->changed, &deflate->mutex);
        }
    }
}

bool uf_png_deflate_next(uf_png_deflate *deflate, bool wait, const unsigned char **bytes,
                         size_t *size) {
    const int64_t number = deflate->released;
    stripe *oldest = stripe_at(deflate, number);
    pthread_mutex_lock(&deflate->mutex);
    if (wait && number < deflate->full) {
        wait_for_stripe(deflate, oldest);
    }
    const bool ready = number < deflate->full && oldest->packed;
    pthread_mutex_unlock(&deflate->mutex);
    if (!ready) {
        return false;
    }
    deflate->checksum =
        adler32_combine(deflate->checksum, oldest->checksum, (z_off_t)oldest->filtered_size);
    if (is_last(deflate, number) && oldest->packed_size > 0) {
        for (int i = 0; i < TRAILER_SIZE; ++i) {
            oldest->rows[oldest->packed_size++] =
                (unsigned char)(deflate->checksum >> (24 - 8 * i) & 0xff);
        }
    }
    *bytes = oldest->rows;
    *size = oldest->packed_size;
    return true;
}

void uf_png_deflate_release(uf_png_deflate *deflate) {
    pthread_mutex_lock(&deflate->mutex);
    ++deflate->released;
    pthread_mutex_unlock(&deflate->mutex);
}

/* ---- making and ending ---- */

static void *allocate_for_zlib(void *user, uInt count, uInt size) {
    (void)user;
    return malloc((size_t)count * size);
}

static void free_for_zlib(void *user, void *memory) {
    (void)user;
    free(memory);
}

static bool create_packer(uf_png_deflate *deflate, packer *made) {
    made->deflate = deflate;
    made->row = malloc(1 + deflate->rows.size);
    made->stream.zalloc = allocate_for_zlib;
    made->stream.zfree = free_for_zlib;
    made->has_stream =
        made->row != NULL && deflateInit2(&made->stream, THOROUGH_LEVEL, Z_DEFLATED, -MAX_WBITS,
                                          MAX_MEM_LEVEL - 1, Z_FILTERED) == Z_OK;
    return made->has_stream;
}

/* Bytes that `size` bytes have at most when they are compressed; deflateBound counts in a long, and
 * so does this. */
static size_t packed_bound(packer *any, size_t size) {
    return deflateBound(&any->stream, (uLong)size) + FLUSH_SIZE + HEADER_SIZE + TRAILER_SIZE;
}

static bool create_stripes(uf_png_deflate *deflate) {
    const size_t filtered = (size_t)deflate->stripe_rows * (1 + deflate->rows.size);
    const size_t rows = (size_t)(deflate->stripe_rows + 1) * deflate->rows.size;
    deflate->room = packed_bound(&deflate->packers[0], filtered);
    deflate->stripes = calloc((size_t)deflate->slots, sizeof *deflate->stripes);
    deflate->dictionaries = malloc((size_t)(deflate->slots + 1) * sizeof *deflate->dictionaries);
    deflate->last = calloc(1, deflate->rows.size);
    if (deflate->stripes == NULL || deflate->dictionaries == NULL || deflate->last == NULL) {
        return false;
    }
    for (int64_t i = 0; i <= deflate->slots; ++i) {
        deflate->dictionaries[i].of = -1;
    }
    for (int64_t i = 0; i < deflate->slots; ++i) {
        stripe *one = &deflate->stripes[i];
        one->rows = malloc(rows > deflate->room ? rows : deflate->room);
        one->filtered = malloc(filtered);
        if (one->rows == NULL || one->filtered == NULL) {
            return false;
        }
    }
    return true;
}

/* Start the other threads. They block all signals, so that handlers run in the caller's threads;
 * without one of them the rest does its work. */
static void start_threads(uf_png_deflate *deflate) {
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before); /* a thread starts with its maker's mask */
    for (int32_t i = 1; i < deflate->packer_count; ++i) {
        packer *next = &deflate->packers[i];
        if (pthread_create(&next->thread, NULL, packer_main, next) != 0) {
            break;
        }
        ++deflate->thread_count;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

uf_png_deflate *uf_png_deflate_create(const uf_png_rows *rows, int32_t threads) {
    const int64_t fitting = (int64_t)(STRIPE_SIZE / (1 + rows->size));
    const int64_t stripe_rows = least(fitting < 1 ? 1 : fitting, rows->count);
    const int64_t stripe_count = (rows->count + stripe_rows - 1) / stripe_rows;
    const size_t stripe_size = 2 * (size_t)stripe_rows * (1 + rows->size);
    /* One stripe for each thread, one that is filled, one that is written. */
    int64_t slots = threads == 1 ? 1 : least((int64_t)threads + 2, stripe_count);
    while (slots > 1 && (size_t)slots > MOST_MEMORY / stripe_size) {
        --slots;
    }
    const int32_t packers = (int32_t)least(threads, slots);
    uf_png_deflate *made = calloc(1, sizeof *made + (size_t)packers * sizeof made->packers[0]);
    if (made == NULL) {
        return NULL;
    }
    made->rows = *rows;
    made->stripe_rows = stripe_rows;
    made->stripe_count = stripe_count;
    made->slots = slots;
    made->packer_count = packers;
    made->checksum = adler32(0, NULL, 0);
    /* Without attributes these two cannot fail on the systems that have them. */
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    bool done = true;
    for (int32_t i = 0; i < packers && done; ++i) {
        done = create_packer(made, &made->packers[i]);
    }
    if (!done || !create_stripes(made)) {
        uf_png_deflate_destroy(made);
        return NULL;
    }
    start_threads(made);
    return made;
}

void uf_png_deflate_destroy(uf_png_deflate *deflate) {
    if (deflate == NULL) {
        return;
    }
    pthread_mutex_lock(&deflate->mutex);
    deflate->stop = true;
    pthread_cond_broadcast(&deflate->changed);
    pthread_mutex_unlock(&deflate->mutex);
    for (int32_t i = 1; i <= deflate->thread_count; ++i) {
        pthread_join(deflate->packers[i].thread, NULL);
    }
    for (int32_t i = 0; i < deflate->packer_count; ++i) {
        if (deflate->packers[i].has_stream) {
            deflateEnd(&deflate->packers[i].stream);
        }
        free(deflate->packers[i].row);
    }
    for (int64_t i = 0; i < deflate->slots && deflate->stripes != NULL; ++i) {
        free(deflate->stripes[i].rows);
        free(deflate->stripes[i].filtered);
    }
    pthread_cond_destroy(&deflate->changed);
    pthread_mutex_destroy(&deflate->mutex);
    free(deflate->last);
    free(deflate->dictionaries);
    free(deflate->stripes);
    free(deflate);
}
