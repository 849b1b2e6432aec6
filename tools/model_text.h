/* model_text.h - the text of a model file, to be compared with another's. */
#ifndef UF_TOOLS_MODEL_TEXT_H
#define UF_TOOLS_MODEL_TEXT_H

#include <stdbool.h>

/* As the library writes the model, freed by free(); NULL where the file holds no model that it
 * loads. */
char *model_text(const char *path, bool trust);

#endif
