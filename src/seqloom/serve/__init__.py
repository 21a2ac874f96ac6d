"""Server: models in worker processes, a scheduler that batches requests, and an HTTP API.

`jobs`, `scheduler`, `model_process` and `worker` know nothing of HTTP:

    process = ModelProcess(ModelSpec("en-de", ("runs/en-de",)))
    await process.start()                                  # loads and warms the model in its own process
    scheduler = Scheduler(process, SchedulerLimits())
    outputs = await scheduler.run([Item("Hello!", tokens=2)], DecodingTask(beam=4), client="me", seconds=60)

Only the worker process imports torch.
"""
