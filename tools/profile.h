/* Settings by name, from a file of the user's: what stands there counts as if given before the options of the command line.
 *
 *   default:               # used where no --profile NAME is given
 *     temp: 0.7
 *   careful:
 *     temp: 0.2
 *     stop: ["\n\n", "User:"]
 *     pin: true
 *
 * The file is $XDG_CONFIG_HOME/tern/config.yaml, or ~/.config/tern/config.yaml. */
#ifndef TN_TOOLS_PROFILE_H
#define TN_TOOLS_PROFILE_H

#include "options.h"

/* Sets options that were not given. The whole file is checked, every field with its line and column. Without a file, or a
 * profile `default`, nothing is set; a profile that was asked for must be there. Strings live in *kept, freed with
 * tn_profile_free after the options were used. Returns the exit code. */
typedef struct tn_profile tn_profile;
int tn_profile_apply(tn_options *options, tn_profile **kept);
void tn_profile_free(tn_profile *kept); /* NULL is fine */

#endif
