/**
 * Data sets: digits ship inside a module (no file, no network, no permission); MNIST is read from a folder or a server.
 *
 * @module
 */
export { type Digits, digits } from "./digits.ts";
export { type DownloadProgress, type Mnist, mnist, type MnistOptions } from "./mnist.ts";
