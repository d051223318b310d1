//! What drives tell of themselves: recorded log pages, outputs of `smartctl`, and what follows.

mod ata;
mod forecast;
mod hostile;
mod nvme;
mod readings;
mod report;
mod smartctl;
