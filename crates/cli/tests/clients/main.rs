//! Whole arrays on member files, run by the command and used by common clients: healthy, with a
//! member missing, during a rebuild, and after the process was killed.

mod cache;
mod condition;
mod copies;
mod daemons;
mod file_systems;
mod fio;
mod flash;
mod iostat;
mod kills;
mod layout;
mod log;
mod memory;
mod nbd;
mod pace;
mod packaging;
mod power;
mod reshape;
mod restarts;
mod rounds;
mod shrunk;
mod spare;
mod staged;
mod stops;
mod tools;
mod trouble;
mod volatile;
mod world;
