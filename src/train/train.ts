/**
 * The entry point `./train`: what stands around a training loop and needs no tensors: progress, logs, learning curves, when
 * to stop. Data, averages and metrics are in `nn`, checkpoints in `state`.
 *
 * @module
 */
export { CSVLogger, type LogRow } from "./csv_logger.ts";
export { type Curve, plotCurves, type PlotOptions } from "./curves.ts";
export type { FrameOptions } from "./frame.ts";
export { EarlyStopping, type EarlyStoppingOptions } from "./early_stopping.ts";
export { type HistOptions, type Numbers, Plot, plot, type PlotApi } from "./plot.ts";
export type { ImageOptions } from "./heat_map.ts";
export { Progress, progress, type ProgressOptions } from "./progress_bar.ts";
export { SummaryWriter } from "./tensorboard.ts";
