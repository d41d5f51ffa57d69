/* Queues of the reference device in virtual time: lists of what is to happen when, and no threads. The clock lets each
 * step of an operation happen at its time: it gets its engine, it begins, it ends. */
#ifndef REFDEVICE_EVENTS_H
#define REFDEVICE_EVENTS_H

/* When a queue comes to its first operation. */
static int64_t asks_at(const Queue *queue) {
  return queue->first->ready_ns > queue->last_end ? queue->first->ready_ns : queue->last_end;
}

/* When the next step of that is. */
static int64_t queue_next(const Queue *queue) {
  const Op *op = queue->first;
  switch (op->step) {
    case QUEUED: return asks_at(queue);
    case HAS_ENGINE: return op->event.start_ns;
    default: return op->event.planned_end_ns;
  }
}

/* The queue whose step is next; of several at once the one that was opened first, and the default queue before all. */
static Queue *next_queue(void) {
  Queue *first = NULL;
  for (Queue *queue = queues; queue; queue = queue->next) {
    if (queue->first && (!first || queue_next(queue) <= queue_next(first))) first = queue;
  }
  return first;
}

static int64_t events_next(void) {
  const Queue *queue = next_queue();
  return queue ? queue_next(queue) : NEVER;
}

static void op_end(Queue *queue, Op *op) {
  op->finish(op);
  op->event.end_ns = queue->last_end = op->event.planned_end_ns;
  trace(&op->event);
  queue->first = op->next;
  op->release(op);
  atomic_fetch_add(&queue->done, 1);
}

static void events_happen(void) {
  Queue *queue = next_queue();
  Op *op = queue->first;
  switch (op->step++) {
    case QUEUED: {
      Engine *engine = engine_of(&op->event);
      op->event.start_ns = asks_at(queue);
      if (engine && engine->last_end > op->event.start_ns) op->event.start_ns = engine->last_end;
      op->event.planned_end_ns = op->event.start_ns + op->duration_ns;
      if (engine) engine->last_end = op->event.planned_end_ns;
      break;
    }
    case HAS_ENGINE: op->work(op); break;
    default: op_end(queue, op);
  }
}

static void queue_wait(Queue *queue, uint64_t submitted) {
  while (atomic_load(&queue->done) < submitted) clock_sleep_until_next();
}

static void queue_drain(Queue *queue) { queue_wait(queue, atomic_load(&queue->submitted)); }

static void drain_all(void) {
  for (Queue *queue = queues; queue; queue = queue->next) queue_drain(queue);
}

static void queue_push(Queue *queue, Op *op) {
  static bool known;
  clock_hold(); /* other threads push too, and wait, by which operations end */
  if (!known) clock_register((Device){events_next, events_happen});
  known = true;
  op->event.queue = queue->id;
  if (queue->first) queue->last->next = op;
  else queue->first = op;
  queue->last = op;
  atomic_fetch_add(&queue->submitted, 1);
  clock_let_go();
}

/* Runs an operation that the caller waits for. */
static void queue_run(Queue *queue, Op *op) {
  queue_push(queue, op);
  queue_drain(queue);
}

static Queue *queue_open(void) {
  Queue *queue = zeroed(sizeof *queue);
  clock_hold();
  queue->id = ++queues_made;
  queue->next = queues;
  queues = queue;
  clock_let_go();
  return queue;
}

static void queue_stop_thread(Queue *queue) { queue_drain(queue); }

static void queue_close(Queue *queue) {
  queue_drain(queue);
  clock_hold();
  Queue **link = &queues;
  while (*link != queue) link = &(*link)->next;
  *link = queue->next;
  clock_let_go();
  free(queue);
}

/* A call of the device's takes the host as long as a reading of the clock. */
static void host_call(void) { clock_call(); }

/* What an inference costs the host: the caller is busy for a while, and beside it a thread of its own. */
static void take_host_time(void) {
  clock_work((int64_t)device_config.submit_ns);
  clock_take_cpu((int64_t)device_config.busy_ns);
}

#endif
