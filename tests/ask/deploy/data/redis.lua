local asic, cell = arg[1], arg[2]
local speed, length, mtu, lanes, lossless, small = arg[3], arg[4], arg[5], arg[6], arg[7], arg[8]
redis = {call = function(command, ...)
  local key = ...
  if command == "SELECT" then return end
  if command == "KEYS" then
    if key == "ASIC_TABLE*" then return {"ASIC_TABLE|" .. asic} end
    if key == "LOSSLESS_TRAFFIC_PATTERN*" then return {"LOSSLESS_TRAFFIC_PATTERN|AZURE"} end
    return {"DEFAULT_LOSSLESS_BUFFER_PARAMETER|AZURE"}
  end
  if command == "HGETALL" then
    if key:sub(1, 4) == "ASIC" then
      return {"cell_size", cell, "pipeline_latency", "19", "mac_phy_delay", "0.8", "peer_response_time", "3.8"}
    end
    return {"mtu", lossless, "small_packet_percentage", small}
  end
  return nil
end}
KEYS, ARGV = {"p"}, {speed, length .. "m", mtu, "0", lanes}
for _, line in ipairs(dofile(arg[9])) do print(line) end
