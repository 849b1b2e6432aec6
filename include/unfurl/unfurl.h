/* unfurl.h - everything. Networks that grow images, in C. */
#ifndef UNFURL_UNFURL_H
#define UNFURL_UNFURL_H

#include <unfurl/checkpoint.h>
#include <unfurl/context.h>
#include <unfurl/custom.h>
#include <unfurl/ema.h>
#include <unfurl/export.h>
#include <unfurl/file.h>
#include <unfurl/gradcheck.h>
#include <unfurl/gradient.h>
#include <unfurl/graph.h>
#include <unfurl/hdf5.h>
#include <unfurl/init.h>
#include <unfurl/inspect.h>
#include <unfurl/layers.h>
#include <unfurl/model.h>
#include <unfurl/ncnn.h>
#include <unfurl/ops.h>
#include <unfurl/optimizer.h>
#include <unfurl/picture.h>
#include <unfurl/png.h>
#include <unfurl/program.h>
#include <unfurl/schedule.h>
#include <unfurl/status.h>
#include <unfurl/store.h>
#include <unfurl/tensor.h>
#include <unfurl/tiles.h>
#include <unfurl/tuning.h>
#include <unfurl/weights.h>

#endif
