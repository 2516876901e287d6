/* Trials: whether a drive that was retired takes data again. The cleaner's. */
#ifndef GB_ENGINE_TRIAL_H
#define GB_ENGINE_TRIAL_H

#include "engine/store.h"

#define GB_TRIAL_PAUSE_MS     INT64_C(10000)   /* before the first one */
#define GB_TRIAL_PAUSE_MAX_MS INT64_C(3600000) /* and before each when all have failed */

/* Tries every retired drive whose time has come by the store's clock. */
void gb_trial_round(struct goblin *store);

#endif
