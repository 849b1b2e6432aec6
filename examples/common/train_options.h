/* train_options.h - what the two files of train.h know of each other. */
#ifndef EXAMPLES_COMMON_TRAIN_OPTIONS_H
#define EXAMPLES_COMMON_TRAIN_OPTIONS_H

#include "common/train.h"

enum { TRAIN_OPTION_COUNT = 22, TRAIN_PATH = 4096 };

/* Fill a table of TRAIN_OPTION_COUNT rows, with the places in `options`. Returns its first row in
 * use. */
option *train_table(train_options *options, option *table);

/* PREFIX + suffix, in TRAIN_PATH characters. */
void train_path(const train_options *options, const char *suffix, char *path);

uf_schedule train_schedule(const train_options *options);

#endif
