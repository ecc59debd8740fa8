/** The version of a workspace's file: the number of migrations of each kind of table. Not part of the start-up. */
import counterTables from "../../migrations/quota-counter/meta/_journal.json";
import databaseTables from "../../migrations/d1/meta/_journal.json";
import destinationsTables from "../../migrations/destinations/meta/_journal.json";
import storeTables from "../../migrations/signal-store/meta/_journal.json";

const journals = [databaseTables, counterTables, storeTables, destinationsTables];
export const FILE_VERSION = journals.map(({ entries }) => entries.length).join(".");
