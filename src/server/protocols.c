/* The protocols of the program. */
#include <string.h>

#include "server/http.h"
#include "server/memcache.h"
#include "server/protocol.h"

/* In the order in which help and start-up name them; NULL ends the list. */
static const struct gb_protocol *const protocols[] = {
    &gb_memcache_protocol,
    &gb_http_protocol,
    NULL,
};

const struct gb_protocol *gb_protocols_find(const char *name)
{
    for (size_t i = 0; protocols[i] != NULL; i++) {
        if (strcmp(protocols[i]->name, name) == 0) {
            return protocols[i];
        }
    }
    return NULL;
}
