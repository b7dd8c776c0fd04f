/* A model on a thread of its own, for a program with a main loop: questions go in, events come out, nothing waits. */
#ifndef TALKER_H
#define TALKER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum talker_event {
    TALKER_OPENING, /* the model is read; text is "DONE of TOTAL MB" */
    TALKER_READY,   /* the model is open */
    TALKER_READING, /* of the prompt; text is "DONE of TOTAL tokens" */
    TALKER_PIECE,   /* of an answer: whole characters */
    TALKER_DONE,    /* the answer is over */
    TALKER_FAILED   /* text says why */
} talker_event;

typedef struct talker talker;

/* `tell` is called on the talker's thread; text is its own, and NUL-terminated. NULL if there is no thread to be had. */
talker *talker_new(const char *model, void (*tell)(void *user, talker_event event, const char *text),
                   void *user);
void talker_ask(talker *t, const char *question); /* while no answer is being made */
void talker_cancel(talker *t);                    /* the answer, or what is read of the prompt: at once */
void talker_free(talker *t);                      /* cancels, and waits for the thread */

#endif
